# fish asks share/inkling/complete what could stand where the cursor is.
set -g __inkling_complete (status dirname)/../../inkling/complete
function __inkling
    set -l before (commandline -opc)
    sh $__inkling_complete $before[1] $before[-1] (commandline -ct)
end
for program in @PROGRAMS@
    complete -c $program -f -a '(__inkling)'
end
