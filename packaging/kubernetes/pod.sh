#!/bin/sh
# pod.sh - the life of a pod of a Kubernetes StatefulSet as a host of one virtual machine (docs/guides/kubernetes.md).
#
# It starts an sshd, by which the master starts the daemon here, and asks the other pods to add this one to their virtual machine. Pod 0
# starts a new one if no other pod has any. When the daemon ends, it begins again. On SIGTERM it leaves the virtual machine.
#
# Exit status: 0 after SIGTERM, 2 if the pod is set up wrongly. `pod.sh --has-daemon`: 0 if a daemon runs in this pod, else 1.
#
# Settings, as variables of the environment:
#   POD_IP        this pod's address
#   POD_SERVICE   the headless Service, whose name has the addresses of all pods (pvm)
#   POD_KEY       a private key of ssh, the same for all pods: it is the key of each pod's user and of each pod's sshd
#                 (/run/secrets/pvm-ssh/ssh-privatekey)
#   POD_SSH_PORT  the port of sshd, above 1023 (2222)
#   POD_PATIENCE  seconds for which pod 0 waits for pods that do not answer before it starts a virtual machine without them (60)
set -u

say() {
	echo "pod.sh: $*" >&2
}

wrong() {
	say "$*"
	exit 2
}

# say_once TEXT: a state that lasts is said when it begins.
said=
say_once() {
	[ "$said" = "$*" ] || say "$*"
	said=$*
}

# in_background COMMAND…: a trap of the shell does not wait for the end of a command that runs in the background.
in_background() {
	"$@" &
	wait $!
}

check_settings() {
	[ "$(id -u)" != 0 ] || wrong "this is root: set securityContext.runAsUser to the image's user (1000)"
	user=$(id -un 2>/dev/null) || wrong "user id $(id -u) has no name in /etc/passwd: set securityContext.runAsUser to the image's user (1000)"
	case $ordinal in
	'' | *[!0-9]*) wrong "the host name $name does not end in a pod's number: this runs in pods of a StatefulSet" ;;
	esac
	[ -n "$POD_IP" ] || wrong "POD_IP is not set: the manifest takes it from status.podIP"
	[ -e "$POD_KEY" ] || wrong "$POD_KEY is missing: make the Secret (kubectl create secret generic pvm-ssh --type=kubernetes.io/ssh-auth --from-file=ssh-privatekey=FILE), and mount it there"
	[ -r "$POD_KEY" ] || wrong "$POD_KEY is not readable for user $user: set the Secret's defaultMode to 0440 and securityContext.fsGroup to $(id -g)"
	public=$(ssh-keygen -y -P '' -f "$POD_KEY" 2>"$folder/said") ||
		wrong "$POD_KEY is no private key for ssh without a passphrase that only its owner can read: $(tail -n 1 "$folder/said")"
	[ -x /usr/sbin/sshd ] || wrong "/usr/sbin/sshd is missing: the image needs openssh-server"
	for program in pvm pvmd ssh getent; do
		command -v $program >/dev/null || wrong "$program is missing: it should be in the image, in a folder of PATH ($PATH)"
	done
}

# All pods have the same key, so a pod trusts exactly the pods that have the Secret.
write_ssh_settings() {
	echo "$public" >"$folder/authorized_keys"
	echo "* $public" >"$folder/known_hosts"
	cat >"$folder/ssh_config" <<-END
		User $user
		Port $POD_SSH_PORT
		IdentityFile $POD_KEY
		IdentitiesOnly yes
		BatchMode yes
		UserKnownHostsFile $folder/known_hosts
		GlobalKnownHostsFile /dev/null
		StrictHostKeyChecking yes
		ConnectTimeout 5
		ServerAliveInterval 5
		LogLevel ERROR
	END
	# What ssh starts has the environment of the pod. The folder is checked by its mode here, and not by sshd, which dislikes /tmp.
	cat >"$folder/sshd_config" <<-END
		Port $POD_SSH_PORT
		HostKey $POD_KEY
		AuthorizedKeysFile $folder/authorized_keys
		AuthenticationMethods publickey
		PasswordAuthentication no
		KbdInteractiveAuthentication no
		AllowUsers $user
		DisableForwarding yes
		ForceCommand . $folder/environment && exec /bin/sh -c "\$SSH_ORIGINAL_COMMAND"
		UsePAM no
		StrictModes no
		PidFile none
		MaxStartups 100
		LogLevel ERROR
	END
	export -p >"$folder/environment"
}

keep_sshd() {
	[ -n "$sshd" ] && kill -0 "$sshd" 2>/dev/null && return
	[ -z "$sshd" ] || say "sshd has ended, and is started again"
	/usr/sbin/sshd -D -e -f "$folder/sshd_config" </dev/null &
	sshd=$!
}

# The process of this pod's daemon, if there is one. Its guardians have the same name.
find_daemon() {
	for process in /proc/[0-9]*; do
		read -r comm 2>/dev/null <"$process/comm" || continue
		[ "$comm" = pvmd ] || continue
		case " $(tr '\0' ' ' 2>/dev/null <"$process/cmdline")" in
		*" --guardian "* | *" --slave "* | *" --hosted "* | "  ") ;;
		*) daemon=${process#/proc/} && return ;;
		esac
	done
	daemon=
	return 1
}

# The addresses of all pods, one a line.
addresses() {
	getent ahosts "$POD_SERVICE" | while read -r address _; do echo "$address"; done | sort -u
}

# ask_to_be_added ADDRESS: 0 if the pod with that address has added this one, 1 if it has no daemon, 2 if it does not answer, 3 if it
# has one, and could not add this pod: also one that is busy is no reason for another virtual machine.
ask_to_be_added() {
	in_background ssh -n -F "$folder/ssh_config" "$1" "$0 --has-daemon" >"$folder/said" 2>&1
	case $? in
	0) ;;
	1) return 1 ;;
	*) return 2 ;;
	esac
	in_background ssh -n -F "$folder/ssh_config" "$1" "pvm add '$name ip=$POD_IP'" >"$folder/said" 2>&1 && return
	problem=$(tail -n 1 "$folder/said")
	case $problem in
	# Another pod is being added: one at a time.
	*"Already in progress") ;;
	*) say_once "$1 has a daemon, but could not add this pod: $problem" ;;
	esac
	return 3
}

# Joins the virtual machine of the other pods. 1 if they have none, and pod 0 may start one.
join() {
	silent='' own=''
	for address in $(addresses); do
		if [ "$address" = "$POD_IP" ]; then
			own=yes
			continue
		fi
		ask_to_be_added "$address"
		case $? in
		0)
			say_once "has joined the virtual machine of $address"
			return 0
			;;
		2) silent="$silent $address" ;;
		3) return 0 ;;
		esac
	done
	# Before the service has this pod's address its name may not have those of the others either.
	if [ -z "$own" ]; then
		say_once "the name $POD_SERVICE does not have this pod's address $POD_IP yet (needs a headless Service of that name with publishNotReadyAddresses)"
		return 0
	fi
	[ -n "$silent" ] && [ $(($(date +%s) - begun)) -lt "$POD_PATIENCE" ] || return 1
	say_once "waits for pods that do not answer:$silent"
}

create() {
	if [ "$ordinal" != 0 ]; then
		say_once "no pod has a virtual machine yet: waits for pod 0"
		return
	fi
	say_once "no other pod has a virtual machine: starts one"
	pvmd </dev/null >/dev/null &
	daemon=$!
}

# Leaves so that the others go on. A master cannot be deleted: its daemon is killed, and another pod takes its place.
leave() {
	trap '' TERM INT
	if find_daemon; then
		hosts=$(pvm conf --json 2>/dev/null | tr ',' '\n' | grep -c '"name"')
		if [ "$hosts" = 1 ]; then
			say "ends the virtual machine, whose last pod this is"
			pvm halt
		elif pvm delete "$name" >/dev/null 2>&1; then
			say "leaves the virtual machine"
		else
			say "leaves the virtual machine to another master"
			while find_daemon; do kill -KILL "$daemon" && sleep 0.1; done
			# That a daemon has ended is proved by its host, which has to be there for that.
			sleep "${PVM_HOST_TIMEOUT:-3}"
		fi
		while find_daemon; do sleep 0.1; done
	fi
	kill "$sshd" 2>/dev/null
	exit 0
}

# What other pods ask.
if [ "${1:-}" = --has-daemon ]; then
	find_daemon
	exit
fi
name=$(uname -n)
name=${name%%.*}
ordinal=${name##*-}
: "${POD_IP:=}" "${POD_SERVICE:=pvm}" "${POD_KEY:=/run/secrets/pvm-ssh/ssh-privatekey}" "${POD_SSH_PORT:=2222}" "${POD_PATIENCE:=60}"
folder=${PVM_TMP:-/tmp}/pod
# Tasks write files as the user's umask says; what is in here is the pod's alone.
mkdir -p -m 700 "$folder" && chmod 700 "$folder" || wrong "cannot write in ${PVM_TMP:-/tmp}"
check_settings
export PVM_RSH="ssh -F $folder/ssh_config"
write_ssh_settings
sshd='' daemon='' begun=$(date +%s)
trap leave TERM INT
# The log of the daemon is that of the pod.
tail -n 0 -F "${PVM_TMP:-/tmp}/pvml.$(id -u)${PVM_VMID:+.$PVM_VMID}" 2>/dev/null &
while :; do
	keep_sshd
	if [ -z "$daemon" ] || ! kill -0 "$daemon" 2>/dev/null; then
		if [ -n "$daemon" ]; then
			say "the daemon has ended"
			said='' begun=$(date +%s)
		fi
		find_daemon || join || create
	fi
	in_background sleep 1
done
