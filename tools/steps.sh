# Sourced by ../test and ../quickstart: headings with times, errors, compiler cache, number of jobs.

# One compiler cache serves all checkouts of the project.
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
jobs=$(nproc)

Heading() { printf '\n== %s (after %dm%02ds)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }

Fail() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  exit "${2:-1}"
}
