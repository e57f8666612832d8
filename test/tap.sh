# Shared by check.sh and run.sh: runs suites, counts their cases and prints the results. Sourced, never run.
# shellcheck shell=bash

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
LOGS=$REPO/build/test-logs

total_passed=0 total_failed=0 total_skipped=0
summary=()

# last_number WORD FILE: prints the number of the last line "# WORD N" of node's TAP summary, or nothing without one.
last_number() { sed -n "s/^# $1 \([0-9][0-9]*\)\$/\1/p" "$2" | tail -n 1; }

# count_tap FILE: sets passed, failed, skipped and cases from node's summary. Cancelled tests count as failed, tests
# that are still to do as skipped. The status is 1 without a summary.
count_tap() {
	local cancelled todo
	cases=$(last_number tests "$1") passed=$(last_number pass "$1") failed=$(last_number fail "$1")
	cancelled=$(last_number cancelled "$1") skipped=$(last_number skipped "$1") todo=$(last_number todo "$1")
	local number
	for number in "$cases" "$passed" "$failed" "$cancelled" "$skipped" "$todo"; do [ -n "$number" ] || return 1; done
	failed=$((failed + cancelled)) skipped=$((skipped + todo))
}

# count_doctest FILE: the same from "[doctest] test cases: 45 | 45 passed | 0 failed | 0 skipped". The line may have
# colours.
count_doctest() {
	local line
	line=$(sed -e 's/\x1b\[[0-9;]*m//g' "$1" | grep '^\[doctest\] test cases:' | tail -n 1)
	[[ $line =~ :\ *([0-9]+)\ *\|\ *([0-9]+)\ passed\ *\|\ *([0-9]+)\ failed\ *\|\ *([0-9]+)\ skipped ]] || return 1
	cases=${BASH_REMATCH[1]} passed=${BASH_REMATCH[2]} failed=${BASH_REMATCH[3]} skipped=${BASH_REMATCH[4]}
}

# count_one FILE STATUS: a command without cases is one case.
count_one() {
	cases=1 passed=0 failed=0 skipped=0
	if [ "$2" = 0 ]; then passed=1; else failed=1; fi
}

# tap_failures FILE: prints every "not ok" line with the description of the failure below it.
tap_failures() { awk '/^ *not ok / && !/ # TODO/ { shown = 1 } shown { print } /^ *\.\.\.$/ { shown = 0 }' "$1"; }

# tap_names FILE: prints name and error of every case that failed itself, not for a case below it; the first ten.
tap_names() {
	awk '
		/^ *not ok / && !/ # TODO/ { name = $0; sub(/^ *not ok [0-9]+ - /, "", name); error = "" }
		name != "" && /^ *failureType: .subtestsFailed/ { name = "" }
		name != "" && /^ *error: / { error = $0; sub(/^ *error: /, ": ", error) }
		name != "" && error ~ /: [|>]-?$/ && !/^ *error: / { error = $0; sub(/^ */, ": ", error) }
		name != "" && /^ *\.\.\.$/ { print name error; name = "" }
	' "$1" | head -n 10
}

# tap_skips FILE: prints name and reason of every test that was skipped or is still to do.
tap_skips() { sed -nE 's/^ *(not )?ok [0-9]+ - (.*) # (SKIP|TODO) ?(.*)$/\2: \4/p' "$1"; }

# tap_releases FILE: of all programs that took part, where the tests tell it.
tap_releases() { sed -n 's/^# with //p' "$1"; }

# doctest_skips FILE: the same, from the lines of native/test/main.cc.
doctest_skips() { sed -n 's/^skipped: //p' "$1"; }

# live PATTERN: copies its input and shows matching lines at once, for suites that take minutes.
exec 5>&1
live() {
	local read_line
	while IFS= read -r read_line; do
		printf '%s\n' "$read_line"
		if [[ $read_line =~ $1 ]]; then printf '      %s\n' "$read_line" >&5; fi
	done
}

# in_guest OPTION... -- SCRIPT [WORD...]: runs a script of tests in a guest with these options of lab.sh. The repository
# is the working directory there, too.
in_guest() {
	local evidence=$LOGS/evidence # logs of scenarios that failed
	local options=()
	while [ "$1" != -- ]; do options+=("$1") && shift; done
	shift
	mkdir -p "$evidence"
	test/lab/lab.sh --coarse-timers --share "$evidence" "${options[@]}" -- node --test-reporter=tap "$@" |
		live '^ *(not )?ok '
}

# set_up: makes this machine ready for the suites: packages, build, the guest's image.
set_up() { test/lab/setup.sh 2>&1 | live '^lab: '; }

# newest_guest: makes the image for the option --newest of lab.sh.
newest_guest() (
	set -e
	. test/lab/lib.sh
	. test/lab/parts.sh
	build_newest
)

# suite NAME FORMAT COMMAND...: runs COMMAND from the repository without input. FORMAT tells how its cases are counted:
# tap, doctest, or one (the command is the case). Output and errors go to LOGS. Failures are shown, and the status is 1.
suite() {
	local name=$1 format=$2 status=0 trouble='' cases passed failed skipped seconds verdict=ok line
	shift 2
	local out=$LOGS/$name.out err=$LOGS/$name.err start=$EPOCHREALTIME
	mkdir -p "$LOGS"
	(cd "$REPO" && "$@") </dev/null >"$out" 2>"$err" || status=$?
	seconds=$(LC_ALL=C awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')

	if ! "count_$format" "$out" "$status"; then
		cases=0 passed=0 failed=1 skipped=0
		trouble="ended with status $status and without a summary; counted as one failure"
	elif [ "$status" != 0 ] && [ "$failed" = 0 ]; then
		failed=1
		trouble="ended with status $status although no case failed; counted as one failure"
	elif [ "$format" = tap ] && [ "$cases" != $((passed + failed + skipped)) ]; then
		failed=$((failed + 1))
		trouble="has $cases cases, and its summary omits some; counted as one failure"
	elif [ "$cases" = 0 ]; then
		failed=1
		trouble="ran no case at all; counted as one failure"
	fi
	total_passed=$((total_passed + passed))
	total_failed=$((total_failed + failed))
	total_skipped=$((total_skipped + skipped))

	[ "$failed" = 0 ] || verdict=FAIL
	printf -v line '%-4s  %-22s %7s s   %d passed, %d failed, %d skipped' \
		"$verdict" "$name" "$seconds" "$passed" "$failed" "$skipped"
	summary+=("$line")
	echo "$line"
	if [ "$format" = tap ]; then
		while IFS= read -r line; do summary+=("        with $line"); done < <(tap_releases "$out")
	fi
	[ "$format" = one ] || "${format}_skips" "$out" | sed 's/^/        skipped: /'
	[ "$failed" != 0 ] || return 0

	if [ "$format" = tap ]; then
		# Of a long output some readers see only the end.
		while IFS= read -r line; do summary+=("        failed: $line"); done < <(tap_names "$out")
	fi
	[ -z "$trouble" ] || echo "      $name $trouble"
	{
		if [ -n "$trouble" ]; then
			# No case failed. The reason is in the errors, so they come first: some readers see only the beginning.
			tail -n 100 "$err"
			tail -n 60 "$out"
		else
			if [ "$format" = tap ]; then tap_failures "$out" | head -n 200; else tail -n 60 "$out"; fi
			tail -n 30 "$err"
		fi
	} | sed 's/^/      /'
	echo "      all of it: ${out#"$REPO/"}, ${err#"$REPO/"}"
	return 1
}

# not_run NAME WHY: a suite that cannot run. It counts as skipped, because its obstacle has failed already or is absent
# here.
not_run() {
	total_skipped=$((total_skipped + 1))
	printf -v line '%-4s  %-22s %11s %s' skip "$1" '' "not run: $2"
	summary+=("$line")
	echo "$line"
}

# side_by_side PARTS PARTS: runs two functions of suites at the same time. Output of the first one comes after the
# second one.
side_by_side() {
	local beside=$LOGS/beside
	mkdir -p "$LOGS"
	rm -f "$beside.counts"
	(
		total_passed=0 total_failed=0 total_skipped=0 summary=()
		"$1" >"$beside.out" 2>&1
		declare -p total_passed total_failed total_skipped summary >"$beside.counts"
	) &
	local pid=$!
	"$2"
	wait "$pid"
	cat "$beside.out"
	add_counts "$beside.counts"
}

# add_counts FILE: adds the counts of the other process of side_by_side. Without a complete file that process died: one
# failure.
add_counts() {
	local own_passed=$total_passed own_failed=$total_failed own_skipped=$total_skipped own_summary=("${summary[@]}")
	# declare in a function makes local variables; -g makes those of the file global.
	if ! grep -q '^declare -a summary=' "$1" 2>/dev/null; then
		total_failed=$((total_failed + 1))
		summary+=("FAIL  a process of this test died, its suites are not counted")
		echo "${summary[-1]}"
		return
	fi
	eval "$(sed 's/^declare -/declare -g -/' "$1")"
	total_passed=$((total_passed + own_passed)) total_failed=$((total_failed + own_failed))
	total_skipped=$((total_skipped + own_skipped)) summary=("${own_summary[@]}" "${summary[@]}")
}

# forget_logs: removes the logs of an earlier run, so that nobody takes them for logs of this one.
forget_logs() { rm -rf "$LOGS"; }

# totals: the last line. Status 1 when anything failed.
totals() {
	echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
	[ "$total_failed" = 0 ]
}
