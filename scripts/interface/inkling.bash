# bash asks share/inkling/complete what could stand where the cursor is.
_inkling_complete=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../inkling" && pwd)/complete
_inkling() {
  local line=${COMP_LINE:0:COMP_POINT} word
  local current=${line##*[[:space:]]} before=${line%[[:space:]]*}
  COMPREPLY=()
  while IFS=$'\t' read -r word _; do
    [[ $COMP_WORDBREAKS != *=* ]] || word=${word#"${current%"${current##*=}"}"}  # bash replaces what stands behind the last "="
    printf -v word %q "$word"
    [[ $word != *[=/] ]] || compopt -o nospace 2> /dev/null
    COMPREPLY+=("$word")
  done < <(sh "$_inkling_complete" "${1##*/}" "${before##*[[:space:]]}" "$current")
}
complete -F _inkling @PROGRAMS@
