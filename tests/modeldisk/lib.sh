# SPDX-License-Identifier: GPL-2.0-only
#
# Functions for the in-guest tests of modeldisk. Each test sources this file first. The shell is
# busybox's sh.

set -eu

CONFIG=/sys/kernel/config/modeldisk
STATS=/sys/kernel/debug/modeldisk

# Messages that a healthy kernel never prints.
BAD_LOG='BUG|WARNING|Oops|Call Trace|general protection|[Kk]ernel panic'
BAD_LOG="$BAD_LOG|blocked for more than|lockup|detected stalls|KASAN|UBSAN"
BAD_LOG="$BAD_LOG|possible (recursive|circular|irq lock)|refcount_t"
BAD_LOG="$BAD_LOG|list_(add|del) corruption|EXT4-fs error"

# fail WHY: end the test. The message goes to stderr, so it is seen in x=$(f) too.
fail() {
	echo "FAIL: $*" >&2
	exit 1
}

# expect WHAT WANTED FOUND: fail unless FOUND is WANTED.
expect() {
	[ "$2" = "$3" ] || fail "$1: wanted '$2', found '$3'"
}

# device NAME PROFILE [SETTING=VALUE]...: make a device, set it up, switch it on.
device() {
	_name=$1
	mkdir "$CONFIG/$_name" || fail "no device $_name"
	echo "$2" > "$CONFIG/$_name/profile" || fail "no profile $2"
	shift 2
	for _pair; do
		echo "${_pair#*=}" > "$CONFIG/$_name/${_pair%%=*}" || fail "$_pair refused"
	done
	echo 1 > "$CONFIG/$_name/power" || fail "$_name does not start"
	[ -b "/dev/$_name" ] || fail "there is no /dev/$_name"
}

# limit NAME FILE: print a limit that the block layer has for a device.
limit() {
	cat "/sys/block/$1/queue/$2"
}

# stat NAME KEY: print a figure that modeldisk has for a device.
stat() {
	awk -v key="$2" '$1 == key { print $2 }' "$STATS/$1/stats"
}

# Every test ends here. If it has passed, remove its devices and unload the module. The test fails
# if the module does not unload, or if the kernel has logged a bad message.
_finish() {
	_status=$?
	trap - EXIT
	if [ $_status = 0 ]; then
		rmdir "$CONFIG"/*/ 2> /dev/null || :
		rmmod modeldisk || _status=1
	fi
	if dmesg | grep -E "$BAD_LOG"; then
		echo "FAIL: the kernel complains, see above"
		_status=1
	fi
	[ $_status != 0 ] || echo "PASS"
	exit $_status
}

modprobe modeldisk || fail "modeldisk cannot be loaded"
trap _finish EXIT
