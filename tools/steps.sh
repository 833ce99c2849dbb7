# Sourced by ../test and ../quickstart: headings with times, errors, compiler cache, number of jobs.

jobs=$(nproc)

Heading() { printf '\n== %s (after %dm%02ds)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }

Fail() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  exit "${2:-1}"
}
