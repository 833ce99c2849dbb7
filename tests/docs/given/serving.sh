needs curl
EXPERIMENT=experiments/serving/h100
# The server runs beside what follows, on a free port in place of 8000, until it is killed.
twinserve() {
  local word words=()
  for word in "${@:2}"; do
    [[ $word == --port || $word == 8000 ]] || words+=("$word")
  done
  if [ "$1" = serve ] && [ "$2" != --help ]; then
    start_server "${words[@]}"
  else
    stop_server
    command twinserve "$@"
  fi
}
curl() { command curl "${@//8000/$port}"; }
