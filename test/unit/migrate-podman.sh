#!/bin/sh
# A stand-in for podman with one container, whose state is a file of the folder FAKE_PODMAN.
cd "$FAKE_PODMAN" || exit 125
echo "$*" >>log
wait_for() {
    : >"$1.reached"
    while [ -e "$1" ]; do sleep 0.1; done
}
field() {
    echo "$request" | sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/"
}
case "$1 $2" in
'container exists')
    [ -e state ]
    ;;
'container inspect')
    [ -e state ] || exit 125
    case $* in
    *StaticDir*) echo "$PWD/$(echo "$*" | sed 's/.* //')/userdata" ;;
    *--format*) cat state ;;
    *) cat inspect.json ;;
    esac
    ;;
'container checkpoint')
    case $* in
    *--pre-checkpoint*)
        wait_for hold-memory
        if [ -e fail-memory ]; then
            echo 'Error: cannot track memory' >&2
            exit 125
        fi
        mkdir -p "$(echo "$*" | sed 's/.* //')/userdata/pre-checkpoint"
        echo 'memory as it was' >/proc/self/fd/4
        exit 0
        ;;
    esac
    # What a session does is here, too.
    request=$(cat "$MIGRATE_ROOT"/run/kfd-checkpoint/contents-*/contents.json) || exit 125
    case $* in
    *--leave-running*)
        wait_for hold-round
        cp round/* "$(field folder)" 2>/dev/null
        exit 0
        ;;
    esac
    cat archive.tar >/proc/self/fd/4
    wait_for hold-checkpoint
    [ ! -e frozen ] || cp frozen "$(dirname "$MIGRATE_ROOT"/run/kfd-checkpoint/contents-*/contents.json)"
    cp pages/* "$(field folder)" 2>/dev/null
    # Without a reader this fails, and cat would wait for one.
    dd if=/dev/null of="$(field stream)" oflag=nonblock conv=notrunc 2>/dev/null || exit 125
    cat stream >"$(field stream)" || exit 125
    echo exited >state
    ;;
'container restore')
    wait_for hold-restore
    if [ -e fail-restore ]; then
        echo 'Error: restore failed' >&2
        exit 125
    fi
    echo running >state
    ;;
'container pause') echo paused >state ;;
'container unpause') echo running >state ;;
'container kill') echo exited >state ;;
'container rm') rm -f state ;;
'image inspect') cat image-id ;;
*) exit 125 ;;
esac
