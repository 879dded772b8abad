#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# patroni.sh PROGRAM ARGUMENT...: runs a program with a cluster of its own, three PostgreSQL nodes under Patroni and one etcd.
#
# As root on Linux each node has a network namespace of its own, and so have etcd and the program; a bridge joins them.  HWT_CLUSTER_CUT is then 1.
# Where namespaces are refused all is on loopback, and no node can be cut off.
#
# HWT_STORE_URL names all three nodes and asks for the one that writes; HWT_CLUSTER_NODES has the url of each alone.  HWT_CLUSTER_CTL is a command:
#
#     kill N    SIGKILL to all processes of node N (1 to 3), Patroni's and PostgreSQL's, as when its machine loses power
#     stop N    SIGSTOP to all of them: the kernel goes on to answer for them, and nobody else does
#     wake N    SIGCONT to PostgreSQL, and not to Patroni
#     start N   starts it again
#     cut N     from now on all of its packets are dropped, in both directions, and nobody is told
#     join N    no longer
#
# Synchronous mode: a commit waits until one standby has it, and only that one may be promoted.  The settings are those that store/doc/store.md
# recommends, but for the watchdog: what stops a node must kill it before its Patroni goes on.  Everything belongs to an unprivileged user and
# lies in a temporary folder, which is removed at the end; its logs go to the folder HWT_CLUSTER_LOGS, if there is one.
set -u

missing() {
	echo "1..0 # SKIP $1 is not installed"
	exit 0
}
PATH=$PATH:/usr/sbin:/usr/local/sbin
for bin in "$(pg_config --bindir 2>/dev/null)" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/bin /usr/local/bin ''; do
	[ -x "$bin/initdb" ] && [ -x "$bin/postgres" ] && break
done
[ -n "$bin" ] || missing 'the PostgreSQL server'
command -v patroni >/dev/null || missing Patroni
command -v etcd >/dev/null || missing etcd

cd "$(dirname "$0")/../.." || exit 1
user=$(id -un) as_user=
if [ "$(id -u)" -eq 0 ]; then # whom the server refuses
	user=nobody
	id postgres >/dev/null 2>&1 && user=postgres
	as_user="setpriv --reuid=$user --regid=$(id -gn "$user") --clear-groups"
fi
# Below the build, if that user may enter it.
folder=$(mktemp -d "$PWD/${BUILD:-build}/ha-XXXXXX") && chmod 755 "$folder"
# shellcheck disable=SC2086 # a command
if ! $as_user test -x "$folder"; then
	rmdir "$folder"
	folder=$(mktemp -d /tmp/hwtha-XXXXXX) || exit 1
fi
etcd=
net=hwtha$$
clean_up() {
	for n in 1 2 3; do
		[ ! -x "$folder/ctl" ] || "$folder/ctl" kill $n
	done
	[ -z "$etcd" ] || kill -KILL "$etcd"
	for n in 0 1 2 3; do
		ip netns del $net-$n 2>/dev/null
	done
	if [ -n "${HWT_CLUSTER_LOGS:-}" ]; then
		cp "$folder"/*.log "$HWT_CLUSTER_LOGS"
	fi
	rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 129' HUP INT TERM
chmod 755 "$folder"

# Namespace 0 has the bridge, etcd and the program.  Nobody asks for addresses (ARP), so nobody hears that a node cannot be reached.
join_node() { # N
	node=$net-$1 mac=02:00:00:00:00:0
	ip netns add "$node" && ip -n "$node" link set lo up &&
		ip link add eth0 netns "$node" address "$mac$1" type veth peer name "node$1" netns $net-0 &&
		ip -n "$node" addr add "10.77.0.$1/24" dev eth0 && ip -n "$node" link set eth0 up &&
		ip -n $net-0 link set "node$1" master bridge up &&
		ip -n $net-0 neigh replace "10.77.0.$1" lladdr "$mac$1" dev bridge nud permanent || return 1
	for other in 1 2 3 9; do
		ip -n "$node" neigh replace 10.77.0.$other lladdr $mac$other dev eth0 nud permanent || return 1
	done
}
join_all() {
	[ "$(id -u)" -eq 0 ] && ip netns add $net-0 && ip -n $net-0 link set lo up &&
		ip -n $net-0 link add bridge address 02:00:00:00:00:09 type bridge &&
		ip -n $net-0 addr add 10.77.0.9/24 dev bridge && ip -n $net-0 link set bridge up &&
		join_node 1 && join_node 2 && join_node 3
}
address() { # N
	if [ -n "$hub" ]; then echo "10.77.0.$1"; else echo 127.0.0.1; fi
}
hub='' HWT_CLUSTER_CUT=''
if join_all 2>"$folder/net.log"; then
	hub="ip netns exec $net-0" HWT_CLUSTER_CUT=1
else
	echo "# no network namespaces, so no node can be cut off: $(tail -n 1 "$folder/net.log")"
fi

# Eight ports that are free now: etcd's two, then those of PostgreSQL and Patroni for each node.
# shellcheck disable=SC2046 # words
set -- $(perl -MIO::Socket::INET -e '
	my @all = map { IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1", LocalPort => 0) } 1 .. 8;
	print join(" ", map { $_->sockport } @all);') "$@"
[ $# -gt 8 ] || { echo 'usage: patroni.sh PROGRAM ARGUMENT...' >&2; exit 2; }
client=$1 peer=$2 ports=$3,$4,$5 rest=$6,$7,$8
shift 8

for n in 1 2 3; do
	port=$(echo "$ports" | cut -d, -f$n)
	mkdir "$folder/$n"
	cat >"$folder/$n/yml" <<-END
		scope: hwt
		name: node$n
		restapi:
		  listen: $(address $n):$(echo "$rest" | cut -d, -f$n)
		  connect_address: $(address $n):$(echo "$rest" | cut -d, -f$n)
		etcd3:
		  host: $(address 9):$client
		bootstrap:
		  dcs:
		    ttl: 20
		    loop_wait: 2
		    retry_timeout: 5
		    synchronous_mode: true
		    postgresql:
		      use_pg_rewind: true
		      use_slots: true
		      parameters:
		        max_connections: 200
		        shared_buffers: 32MB
		        synchronous_commit: 'on'
		        wal_log_hints: 'on'
		        wal_keep_size: 256MB
		        wal_receiver_timeout: 5s
		        wal_sender_timeout: 5s
		        wal_retrieve_retry_interval: 500ms
		        tcp_keepalives_idle: 5
		        tcp_keepalives_interval: 2
		        tcp_keepalives_count: 3
		        tcp_user_timeout: 10s
		  initdb:
		    - encoding: UTF8
		    - locale: C
		    - data-checksums
		    - no-instructions
		postgresql:
		  listen: $(address $n):$port
		  connect_address: $(address $n):$port
		  data_dir: $folder/$n/data
		  bin_dir: $bin
		  pgpass: $folder/$n/pgpass
		  parameters:
		    unix_socket_directories: ''
		  pg_hba:
		    - host all all samenet trust
		    - host replication all samenet trust
		  authentication:
		    superuser: { username: hwt, password: hwt }
		    replication: { username: hwt, password: hwt }
	END
done
mkdir "$folder/etcd"
[ -z "$as_user" ] || chown -R "$user" "$folder"

# The groups of a node: Patroni's own, and below the postmaster, which is nobody's child, one of each of its processes.  With the postmaster
# stopped their number does not grow.
cat >"$folder/ctl" <<END
#!/bin/sh
node=$folder/\$2
of_node() {
	[ ! -s "\$node/pid" ] || cat "\$node/pid"
	[ ! -s "\$node/data/postmaster.pid" ] || head -1 "\$node/data/postmaster.pid"
}
all() { # SIGNAL
	for pid in \$(of_node) \$(ps -o pid= --ppid "\$(of_node | paste -sd, -)" 2>/dev/null); do
		[ ! -d "/proc/\$pid" ] || ! grep -q "$folder\|postgres" "/proc/\$pid/cmdline" 2>/dev/null || kill "-\$1" "\$pid" 2>/dev/null
	done
}
case \$1 in
kill) all STOP; all KILL; rm -f "\$node/pid" ;;
stop) all STOP; all STOP ;;
wake) pid=\$(head -1 "\$node/data/postmaster.pid") && kill -CONT \$(ps -o pid= --ppid "\$pid") "\$pid" ;;
start)
	cd / && rm -f "\$node/pid"
	${hub:+ip netns exec $net-\$2} $as_user setsid patroni "\$node/yml" </dev/null >>"$folder/node\$2.log" 2>&1 &
	echo \$! >"\$node/pid"
	;;
cut) ip -n $net-0 link set node\$2 nomaster ;;
join) ip -n $net-0 link set node\$2 master bridge ;;
esac
:
END
chmod 755 "$folder/ctl"
# shellcheck disable=SC2086 # a command
(cd / && exec $hub $as_user etcd --name hwt --data-dir "$folder/etcd/data" --listen-client-urls "http://$(address 9):$client" \
	--advertise-client-urls "http://$(address 9):$client" --listen-peer-urls "http://127.0.0.1:$peer" \
	--initial-advertise-peer-urls "http://127.0.0.1:$peer" --initial-cluster "hwt=http://127.0.0.1:$peer" \
	--unsafe-no-fsync --log-level error </dev/null >"$folder/etcd.log" 2>&1) &
etcd=$!
for n in 1 2 3; do
	"$folder/ctl" start $n
done

hosts=$(address 1),$(address 2),$(address 3)
HWT_CLUSTER_NODES=
for n in 1 2 3; do
	HWT_CLUSTER_NODES="$HWT_CLUSTER_NODES${HWT_CLUSTER_NODES:+;}host=$(address $n) port=$(echo "$ports" | cut -d, -f$n) user=hwt dbname=postgres connect_timeout=2"
done
HWT_STORE_URL="pg:host=$hosts port=$ports user=hwt dbname=postgres target_session_attrs=read-write connect_timeout=2"
HWT_CLUSTER_CTL=$folder/ctl
export HWT_STORE_URL HWT_CLUSTER_NODES HWT_CLUSTER_CTL HWT_CLUSTER_CUT

tries=0
until [ "$($hub "$bin/psql" "${HWT_STORE_URL#pg:}" -Atc "select count(*) from pg_stat_replication where state = 'streaming' and application_name like 'node%'" 2>/dev/null)" = 2 ]; do
	tries=$((tries + 1))
	[ $tries -lt 300 ] || { tail -n 5 "$folder"/*.log; exit 1; }
	sleep 0.2
done
$hub "$@"
