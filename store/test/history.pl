#!/usr/bin/perl
# SPDX-License-Identifier: BSD-2-Clause
# history.pl FOLDER: judges what a store did by what its users saw.
#
# Every process of a test writes a log: what it asked for, what it was answered, each start and each end of a task.  The nemesis writes what it did
# to them.  When all is over the tables are written down.  This program reads it all, knows nothing of the store's inside, and demands its promises
# D1 to D6 and those of groups (store/include/hwt_store.h).  It prints a summary, what breaks them and the lines of the logs that tell of it, and its
# status is 1 if something did.
#
# FOLDER/*.log, one for each process; a line is written by one write(2), so a kill loses none of those before.  All times are microseconds on one
# clock that nobody sets.  ITEM is the user's own number of a timeout, which travels as its data.  RC is an errno value.  KIND is the mode: 0 at least
# once, 1 at most once, 2 transaction.
#
#     TIME put? ITEM KIND DELAY [WORD=VALUE ...]         TIME put ITEM RC ID
#         key=KEY replace=1 period=US                    ID with EEXIST, EBUSY: of the timeout that has the key
#         group=ITEM                                     put_many: the first item of those that are put together
#         of=GROUP                                       the store's group to which it belongs
#         on=1                                           put_on, in a transaction that adds the item to the intents
#     TIME cancel? ITEM ID                               TIME cancel ITEM ID RC          ITEM 0: not known
#     TIME move? ITEM ID DELAY                           TIME move ITEM ID DELAY RC
#     TIME limit? KIND GROUP RUNNING EVERY BURST         TIME limit KIND GROUP RC
#     TIME halt? KIND GROUP                              TIME halt KIND GROUP RC      a pause; GROUP -: of the kind
#     TIME resume? KIND GROUP                            TIME resume KIND GROUP RC
#     TIME start ITEM ID KIND ATTEMPT EPOCH DUE MISSED   EPOCH: of its shard; MISSED: periods that are merged into it
#     TIME end ITEM ID ATTEMPT EPOCH RC MINE             MINE: hwt_store_is_mine(), asked after TIME
#     TIME waits KIND REASON=COUNT ...                   why timeouts wait there: a reason of hwt_store_wait and how many have it
#     TIME lost                                          this process lost its lease
#     TIME pause FROM                                    this process had no processor since; of the nemesis: nobody had
#     TIME clock? OFFSET                                 TIME clock OFFSET   from the one to the other its clock, which is the database's, was set
#
# FOLDER/nemesis.log
#
#     TIME world LEASE ATTEMPTS PATIENCE [PROMPT]        the lease, max_attempts, how late a start may be, and how long a shard may stand still
#     TIME load PERCENT                                  of the machine, for each core: beyond 100 all is allowed to take longer
#     TIME kill|stop|cont PROCESS                        PROCESS: its log without .log
#     TIME away [WHAT] | back                            from then to then nobody could work; WHAT was done to a cluster; they may overlap
#     TIME clock OFFSET                                  the database's clock is now ahead by this
#     TIME lock NAME [KEEPS ...] | unlock [ended]        a user keeps rows locked that hold up these: KIND/SHARD, or id=ID; of a frozen-NAME the
#                                                        session may be ended by others
#     TIME storm KIND | calm KIND                        rules of the groups s... of this kind change all the time
#     TIME choke UNTIL                                   of the proxy: half of an answer, and nothing more on that connection until then
#     TIME clogged COUNT                                 so many backends wait for their clients to read; before the cont
#
# Reads FOLDER/database.tables, written at the end, and *.copy, taken while everything ran
#
#     row ITEM ID KIND STATE ATTEMPT [GROUP]             STATE: 1 pending, 2 running, 3 FAILED
#     effect ITEM [DUE]
#     intent ITEM
#
# What is not known counts as either: a put or cancel whose answer is ECONNRESET, or never came, may have happened or not; that of a killed process
# within 12 s of its end.  Of a put in a transaction the table of intents tells.
#
# A timeout is known by its id.  A put that replaces gives it another item, so it may be several items, one after the other: versions.  If it runs
# meanwhile, that run is the last of the old item, whatever it answers, and the new one comes after it, unless a cancel drops it, which is EBUSY.
use strict;
use warnings;
use Errno qw(EBUSY ECANCELED ECONNRESET EEXIST ENOENT);
use List::Util qw(any max min first sum0 uniq);

my ($folder) = @ARGV;
die "usage: history.pl FOLDER\n" unless @ARGV == 1 && -d $folder;
my ($AT_LEAST_ONCE, $AT_MOST_ONCE, $TRANSACTION) = (0, 1, 2);
my $NEVER = 9e18;
my $AHEAD = 120_000;    # a run may be begun so far ahead of its time: 20 ms, and what a process errs about the database's clock
my $SETTLE = 3_000_000; # by then the end of a run is in the database, if nothing disturbs it
my $LINGER = 12_000_000; # so long the server may go on with what a killed process asked for: its patience with a lock is 10 s

my (%item, %versions, %by_key, %group, %cancels, %moves, %key_of, %trouble, %blow, %killed, @away, @clock, %clock_of, @all_starts, %rules, %of_group, @waits);
my ($lease, $max_attempts, $patience, $prompt, $over) = (2_000_000, 20, 60_000_000, undef, 0); # OVER: the last time of all
my (@locks, %storms, @acts, %acts_on, %acts, @lost); # ACTS: disturb all shards; ACTS_ON: those of a process
my $SHARDS = 8; # of a kind
my $NO_ACT = qr/^(?:world|load|put\??|cancel\??|halt\??|resume\??|lock|unlock|storm|calm|said|clogged)$/;
my (%wrong, @shown);
my $stories = 3; # as many are told

sub wrong {
	my ($rule, $text) = @_;
	push @shown, "$rule $text" if ++$wrong{$rule} <= 5;
}

# Reading

sub item {
	return $item{ $_[0] } //= { name => $_[0], puts => [], cancels => [], moves => [], starts => [], effects => 0, effect => {} };
}

# Finds the question that an answer belongs to: the last one of this process without an answer.  Of several, it began with the first.
sub answered {
	my ($asked, $log, $time, $rc) = @_;
	my @open = grep { $_->{log} eq $log && $_->{end} == $NEVER } @{ $asked // [] };
	my $question = $open[-1];
	return wrong('log', "$log: an answer without a question at $time") unless $question;
	$question->{begin} = $open[0]{begin};
	@$question{ 'end', 'rc', 'told' } = ($time, $rc, $rc);
	return $question;
}

sub asked {
	my ($list, $log, $time, %more) = @_;
	push @$list, { log => $log, begin => $time, end => $NEVER, rc => ECONNRESET, %more };
}

my %reader = (
	'put?' => sub { my ($log, $time, $name, $kind, $delay, @more) = @_;
		my %more = map { split /=/, $_, 2 } @more;
		my $item = item($name);
		@$item{qw(kind period of)} = ($kind, $more{period} // 0, defined $more{of} ? "$kind/$more{of}" : undef);
		$item->{key} = defined $more{key} ? join('/', $item->{of} // $kind, $more{key}) : undef;
		asked($item->{puts}, $log, $time, delay => $delay, item => $item, %more) },
	'put' => sub { my ($log, $time, $name, $rc, $id) = @_;
		my $put = answered(item($name)->{puts}, $log, $time, $rc);
		$put->{id} = $id if $put },
	'cancel?' => sub { my ($log, $time, $name, $id) = @_;
		asked($cancels{$id} //= [], $log, $time);
		item($name)->{cancelled_as} = $id if $name },
	'cancel' => sub { my ($log, $time, undef, $id, $rc) = @_; answered($cancels{$id}, $log, $time, $rc) },
	'move?' => sub { my ($log, $time, undef, $id, $delay) = @_; asked($moves{$id} //= [], $log, $time, delay => $delay) },
	'move' => sub { my ($log, $time, undef, $id, undef, $rc) = @_; answered($moves{$id}, $log, $time, $rc) },
	(map { my $rule = $_;
		"$rule?" => sub { my ($log, $time, $kind, $of, @values) = @_; asked($rules{"$kind/$of"}{$rule} //= [], $log, $time, values => \@values) },
		$rule => sub { my ($log, $time, $kind, $of, $rc) = @_; answered($rules{"$kind/$of"}{$rule}, $log, $time, $rc) } } qw(limit halt resume)),
	'start' => sub { my ($log, $time, $name, $id, $kind, $attempt, $epoch, $due, $missed) = @_;
		my $start = { item => $name, log => $log, begin => $time, id => $id, kind => $kind, attempt => $attempt, epoch => $epoch,
			due => $due, missed => $missed // 0, end => $NEVER };
		push @{ item($name)->{starts} }, $start;
		push @all_starts, $start },
	'end' => sub { my ($log, $time, $name, undef, $attempt, $epoch, $rc, $mine) = @_;
		my $start = first { $_->{log} eq $log && $_->{end} == $NEVER && $_->{epoch} == $epoch } reverse @{ item($name)->{starts} };
		return wrong('log', "$log: an end without a start, item $name") unless $start;
		@$start{ 'end', 'rc', 'mine' } = ($time, $rc, $mine) },
	'waits' => sub { my ($log, $time, $kind, @why) = @_;
		push @waits, { log => $log, time => $time, kind => $kind, why => [map { /^(\w+)=/ ? $1 : () } @why] } },
	'lost' => sub { my ($log, $time) = @_; push @lost, [$log, $time]; push @{ $_->{$log} }, $time for \%trouble, \%blow },
	'world' => sub { (undef, undef, $lease, $max_attempts, $patience, $prompt) = @_ },
	'load' => sub { my (undef, undef, $percent) = @_; $_ *= max(1, $percent / 100) for $patience, $SETTLE, $LINGER;
		$prompt *= 2 if defined $prompt && $percent > 100 },
	'lock' => sub { my (undef, $time, $name, @keeps) = @_;
		push @locks, { begin => $time, end => $NEVER, name => $name, keeps => { map { $_ => 1 } @keeps } } },
	'unlock' => sub { my (undef, $time, $ended) = @_; @{ $locks[-1] }{qw(end ended)} = ($time, $ended) },
	'storm' => sub { my (undef, $time, $kind) = @_; push @{ $storms{$kind} }, [$time, $NEVER] },
	'calm' => sub { my (undef, $time, $kind) = @_; $storms{$kind}[-1][1] = $time },
	'choke' => sub { my (undef, $time, $until) = @_; push @acts, $time, $until },
	'cont' => sub { my (undef, $time, $process) = @_; push @{ $trouble{$process} }, $time },
	(map { my $act = $_;
		$act => sub { my (undef, $time, $process) = @_;
			push @{ $_->{$process} }, $time for \%trouble, \%blow;
			$killed{$process} = $time if $act eq 'kill' } } qw(kill stop)),
	'away' => sub { my (undef, $time, @what) = @_; push @away, [$time, $NEVER, "@what"] },
	'back' => sub { my (undef, $time) = @_; # of those that overlap, the last to begin: so all of them cover the same time
		my $open = first { $_->[1] == $NEVER } reverse @away;
		return wrong('log', "an outage that had not begun was over at $time") unless $open;
		$open->[1] = $time },
	'pause' => sub { my ($log, $time, $from) = @_;
		return push @away, [$from, $time, ''] if $log eq 'nemesis';
		push @{ $acts_on{$log} }, $from, $time;
		for (my $at = $from; $at < $time + 1_000_000; $at += 1_000_000) { push @{ $_->{$log} }, min($at, $time) for \%trouble, \%blow } },
	'clock?' => sub { my ($log, $time, $offset) = @_; push @{ $clock_of{$log} }, { begin => $time, end => $NEVER, offset => $offset } },
	'clock' => sub { my ($log, $time, $offset) = @_;
		return push @clock, [$time, $offset] if $log eq 'nemesis';
		$_->{end} = min($_->{end}, $time) for grep { $_ != $clock_of{$log}[-1] } @{ $clock_of{$log} // [] } },
);

sub read_log {
	my ($file, $log) = @_;
	open my $in, '<', $file or die "$file: $!\n";
	while (<$in>) {
		next unless /\n\z/; # the last line of one that was killed by the disk
		my ($time, $event, @more) = split;
		$over = max($over, $time) if defined $event;
		push @{ $event =~ /^(?:kill|stop|cont|restart|quit)$/ ? $acts_on{ $more[0] } : \@acts }, $time
			if $log eq 'nemesis' && defined $event && $event !~ $NO_ACT;
		$acts{$event}++ if $log =~ /^(?:nemesis|proxy)$/ && defined $event && $event !~ /^(?:world|load|drain|put|cancel|said)/;
		my $read = $reader{ $event // '' } or next;
		$read->($log, $time, @more);
	}
}

sub read_tables {
	my ($file) = @_;
	my (%row, %effects, %intents);
	open my $in, '<', $file or die "$file: $!\n";
	while (<$in>) {
		my ($what, $name, @more) = split;
		push @{ $effects{$name} }, $more[0] // '' if $what eq 'effect';
		$intents{$name}++ if $what eq 'intent';
		push @{ $row{$name} }, { map { $_ => shift @more } qw(id kind state attempt of) } if $what eq 'row';
	}
	return (\%row, \%effects, \%intents);
}

# What is known of a process at a time

sub away {
	my ($from, $to) = @_;
	return first { $_->[0] <= $to && $_->[1] >= $from } @away;
}

# Nothing kept this process from committing an end that its task gave at this time.
sub undisturbed {
	my ($log, $time) = @_;
	return 0 if away($time - $lease, $time + $SETTLE) || locked($time - $lease, $time + $SETTLE);
	return !first { $_ >= $time - $lease && $_ <= $time + $SETTLE } @{ $trouble{$log} // [] };
}

# The locks of users that kept something.
sub locked {
	my ($from, $to) = @_;
	return grep { %{ $_->{keeps} } && $_->{begin} <= $to && $_->{end} >= $from } @locks;
}

# What took its rows from a process, or from any one, in that time: a kill, a stop, a lease that was lost.
sub blows {
	my ($log, $from, $to) = @_;
	return grep { $_ >= $from && $_ <= $to } map { @$_ } defined $log ? $blow{$log} // [] : values %blow;
}

# The furthest that the database's clock had come around a time; where a process has a clock of its own, from one time to the other.
sub latest_clock {
	my ($time, $log, $since) = @_;
	return max(map { min($time, $_->{end}) + $_->{offset} } grep { $_->{begin} <= $time && $_->{end} >= $since } @{ $clock_of{$log} })
		if $clock_of{$log};
	my $is = 0;
	my @near;
	for my $step (@clock) {
		push @near, $step->[1] if $step->[0] > $time - 5_000_000 && $step->[0] <= $time + 100_000;
		$is = $step->[1] if $step->[0] <= $time - 5_000_000;
	}
	return $time + max($is, @near);
}

sub happened { return grep { $_->{rc} == 0 } @_ }
sub may_have_happened { return grep { $_->{rc} == 0 || $_->{rc} == ECONNRESET } @_ }

# What belongs together

# What a killed process asked for and was not answered has happened soon after, or never.
sub end_questions_of_the_dead {
	for my $question (grep { $_->{end} == $NEVER && $killed{ $_->{log} } }
		((map { @{ $_->{puts} } } values %item), (map { @$_ } values %cancels, values %moves))) {
		my $time = max($question->{begin}, $killed{ $question->{log} });
		$question->{end} = $LINGER + max($time, map { $_->[1] } grep { $_->[0] <= $time + 1_000_000 && $_->[1] >= $time } @away);
	}
}

# A transaction was committed if its intent is there.
sub decide_transactions {
	my ($intents) = @_;
	for my $put (grep { $_->{on} } map { @{ $_->{puts} } } values %item) {
		my ($name, $rc) = ($put->{item}{name}, $put->{rc});
		$put->{rc} = $intents->{$name} ? 0 : ECANCELED if $rc == ECONNRESET;
		wrong('D1', "item $name was put in a transaction that was committed, and its intent is lost") if $rc == 0 && !$intents->{$name};
		wrong('D1', "item $name was put in a transaction that was rolled back, and its intent is there")
			if $rc != 0 && $rc != ECONNRESET && $intents->{$name};
	}
}

# Of those that were put together all are there if one is.
sub decide_groups {
	my ($rows) = @_;
	push @{ $group{ $_->{group} } }, $_ for grep { $_->{group} } map { @{ $_->{puts} } } values %item;
	for my $puts (values %group) {
		next unless any { @{ $_->{item}{starts} } || $_->{item}{effects} || $rows->{ $_->{item}{name} } } @$puts;
		$_->{rc} = 0 for grep { $_->{rc} == ECONNRESET } @$puts;
	}
}

# Gives each item its id, and what was asked for by that id, if it came after the item's put.
sub find_ids {
	my ($rows) = @_;
	for my $item (map { $item{$_} } sort { $a <=> $b } keys %item) {
		my @ids = ((map { $_->{id} } grep { $_->{rc} == 0 && $_->{id} } @{ $item->{puts} }), map { $_->{id} } @{ $item->{starts} },
			@{ $rows->{ $item->{name} } // [] });
		my $id = $item->{id} = first { defined } @ids, $item->{cancelled_as};
		my $begin = min(0 + $NEVER, map { $_->{begin} } @{ $item->{puts} });
		next unless defined $id;
		push @{ $versions{$id} }, $item;
		$key_of{$id} //= $item->{key};
		$item->{cancels} = [grep { $_->{end} >= $begin } @{ $cancels{$id} // [] }];
		$item->{moves} = [grep { $_->{end} >= $begin } @{ $moves{$id} // [] }];
	}
	for my $put (grep { !$_->{group} && $_->{id} && ($_->{rc} == EEXIST || $_->{rc} == EBUSY) } map { @{ $_->{puts} } } values %item) {
		$key_of{ $put->{id} } //= $put->{item}{key};
	}
}

# The put that is known to have replaced an item, the first one to be answered; and those that may have.  An item that runs is there, although its own
# put is not answered yet.
sub replaced {
	my ($item) = @_;
	my $put = $item->{puts}[0];
	return if !defined $item->{key} || !defined $item->{id} || !$put || $put->{rc} != 0;
	my $there = min($put->{end}, map { $_->{begin} } @{ $item->{starts} });
	my @by = sort { $a->{end} <=> $b->{end} } grep { $_->{replace} && $_->{rc} == 0 && $_->{begin} > $there && !may_be_dropped($_) }
		map { @{ $_->{puts} } } @{ $versions{ $item->{id} } };
	return $by[0];
}

sub may_be_replaced {
	my ($item) = @_;
	return unless defined $item->{key};
	my $begin = $item->{puts}[0]{begin};
	return grep { $_->{item} != $item && $_->{replace} && $_->{end} >= $begin
		&& (!defined $item->{id} || !defined $_->{item}{id} || $item->{id} == $_->{item}{id}) } may_have_happened(@{ $by_key{ $item->{key} } });
}

# A cancel of what runs drops what has replaced it, and says that it runs.
sub may_be_dropped {
	my ($put) = @_;
	my $id = $put->{item}{id};
	return $put->{replace} && defined $id
		&& any { $_->{end} >= $put->{begin} && ($_->{rc} == EBUSY || $_->{rc} == ECONNRESET) } @{ $cancels{$id} // [] };
}

# The cancels that are known to have cancelled an item: not what it had replaced, nor what has replaced it.
sub cancelled {
	my ($item) = @_;
	my $put = $item->{puts}[0];
	my $until = min(0 + $NEVER, map { $_->{begin} } may_be_replaced($item));
	return grep { $_->{end} < $until && (!$put->{replace} || $_->{begin} > $put->{end}) } happened(@{ $item->{cancels} });
}

# A put has replaced it while a run went on, or before the end of that was in the database.
sub overtaken {
	my ($item) = @_;
	for my $start (grep { ($_->{rc} // -1) == 0 } @{ $item->{starts} }) {
		return 1 if any { ($_->{end} >= $start->{begin} && ($_->{begin} <= $start->{end} + 3 * $SETTLE || !undisturbed($start->{log}, $start->{end})))
			|| ($start->{begin} > $_->{end} && is_last_run($item, $_, $start)) }
			may_be_replaced($item);
	}
	return 0;
}

# A run went on all the while.
sub overtakes {
	my ($put) = @_;
	return any { $_->{begin} < $put->{begin} && $_->{end} > $put->{end} } map { @{ $_->{starts} } } @{ $versions{ $put->{id} } // [] };
}

# The ends of the runs that began before a time and whose timeout this item has replaced; of a run that never ended, when
# it could be taken over.
sub ends_before_it {
	my ($item, $time) = @_;
	return unless $item->{puts}[0]{replace} && defined $item->{id};
	return map { my $start = $_; $start->{end} < $NEVER ? $start->{end} : ($start->{begin}, map { $_ + $lease } blows($start->{log}, $start->{begin} - $lease, $time)) }
		grep { $_->{begin} < $time } map { @{ $_->{starts} } } grep { $_ != $item } @{ $versions{ $item->{id} } };
}

# Of what has a key and was never seen, the id is not known: a cancel of another id that had this key may have been its.
sub may_be_cancelled {
	my ($item) = @_;
	return 1 if may_have_happened(@{ $item->{cancels} }) || any { may_be_dropped($_) } @{ $item->{puts} };
	return 0 if defined $item->{id} || !defined $item->{key};
	my $begin = $item->{puts}[0]{begin};
	return any { !$versions{$_} && ($key_of{$_} // '') eq $item->{key}
		&& may_have_happened(grep { $_->{end} >= $begin } @{ $cancels{$_} }) } keys %cancels;
}

# The rules

# D1, D2: what was accepted is done, cancelled, replaced, FAILED or left, and one of these.
sub one_fate {
	my ($item, $rows, $count) = @_;
	my $name = $item->{name};
	my @puts = @{ $item->{puts} };
	my $accepted = happened(@puts);
	my $replaced = replaced($item);
	my @cancelled = cancelled($item);
	undef $replaced if @cancelled && $item->{period}; # that run was its last, and what has replaced it comes after it
	my $ends = grep { ($_->{rc} // -1) == 0 && $_->{end} < $NEVER } @{ $item->{starts} };
	my $ran = !$item->{period} && ($item->{kind} == $TRANSACTION ? $item->{effects} > 0 : $ends > 0);
	my $row = $rows->[0];

	if (!may_have_happened(@puts)) {
		my $why = $puts[0]{on} ? 'was put in a transaction that was not committed' : "was refused ($puts[0]{rc})";
		$count->{refused}++;
		wrong('D1', "item $name $why, and is there all the same") if $row || @{ $item->{starts} } || $item->{effects};
		return;
	}
	$count->{ $accepted ? 'accepted' : 'unknown' }++;
	wrong('D1', "item $name has two rows") if @$rows > 1;
	wrong('D2', "item $name was cancelled twice") if @cancelled > 1;
	my @fates = ((@cancelled ? 'cancelled' : ()), ($replaced ? 'replaced' : ()), ($row ? $row->{state} == 3 ? 'FAILED' : 'left' : ()));
	push @fates, 'done' if !@fates && $ran;
	push @fates, 'cancelled' if !@fates && may_be_cancelled($item); # by a call that was not answered
	push @fates, 'replaced' if !@fates && may_be_replaced($item);
	wrong('D2', "item $name is @fates") if @fates > 1;
	wrong('D2', "item $name has an effect and is $fates[0]")
		if !$item->{period} && $item->{effects} && @fates && $fates[0] ne 'done' && !($fates[0] eq 'replaced' && overtaken($item));
	if ($accepted && !@fates) {
		wrong('D1', "item $name was accepted and is lost");
		@fates = 'lost';
	}
	$count->{ $fates[0] }++ if $accepted;
	$count->{by_kind}[$item->{kind}]{ $fates[0] }++ if $accepted;
	failed($item, $row) if $row && $row->{state} == 3;
}

# Did something befall what runs at most once and is FAILED?  Either its last run, or a begin after it that no start followed: of a run that failed,
# or of a periodic one.
sub befallen {
	my ($item, $last) = @_;
	my ($from, $to, $log) = (0, $NEVER);
	if ($last) {
		my $end = $last->{end} < $NEVER ? $last->{end} + $SETTLE : $NEVER;
		return 1 if away($last->{begin} - $lease, $end) || blows($last->{log}, $last->{begin} - $lease, $end);
		return 0 if $end == $NEVER || ($last->{rc} == 0 && !$item->{period});
		$from = $last->{end};
	} elsif (!@clock) {
		my @dues = map { $_->{begin} + $_->{delay} } may_have_happened(@{ $item->{puts} }, @{ $item->{moves} });
		($from, $to) = (min(@dues), is_ruled($item) ? $NEVER : max(@dues) + $patience);
	}
	return away($from - $lease, $to) || blows(undef, $from - $lease, $to);
}

# D2: FAILED is what had its attempts, or was to run at most once and met a crash.
sub failed {
	my ($item, $row) = @_;
	my $last = $item->{starts}[-1];
	return if $row->{attempt} >= $max_attempts;
	return wrong('D2', "item $item->{name} is FAILED after $row->{attempt} attempts") if $item->{kind} != $AT_MOST_ONCE;
	wrong('D2', "item $item->{name} ended well and is FAILED")
		if $last && !$item->{period} && $last->{end} < $NEVER && $last->{rc} == 0 && undisturbed($last->{log}, $last->{end});
	wrong('D2', "item $item->{name} runs at most once, and is FAILED although nothing befell it") if !befallen($item, $last);
}

# D2, D5: after the end of a run that nothing disturbed there is no other; no two processes run under one epoch.  The end of a transaction is that
# of its effect, which by_mode counts: the task may have returned 0, and the commit have failed.
sub no_two_ends {
	my ($item) = @_;
	my (%holder, $before);
	my $replaced = replaced($item);
	my $commits = $item->{kind} != $TRANSACTION;
	for my $start (sort { $a->{begin} <=> $b->{begin} } @{ $item->{starts} }) {
		my $of = $holder{ $start->{epoch} } //= $start->{log};
		wrong('D5', "item $item->{name} was begun under epoch $start->{epoch} by $of and $start->{log}") if $of ne $start->{log};
		wrong('D5', "item $item->{name} went back from epoch $before->{epoch} to $start->{epoch}")
			if $before && $start->{epoch} < $before->{epoch} && undisturbed($start->{log}, $start->{begin});
		wrong('D2', "item $item->{name} started again after $before->{log} had ended it")
			if $commits && $before && same_period($item, $before, $start) && $before->{end} < $start->{begin} && $before->{rc} == 0
			&& undisturbed($before->{log}, $before->{end});
		my $ended = $commits && !$item->{period} && $start->{end} < $NEVER && $start->{rc} == 0 && undisturbed($start->{log}, $start->{end});
		wrong('D2', "item $item->{name} was cancelled although $start->{log} had ended it") if $ended && cancelled($item);
		wrong('D2', "item $item->{name} was replaced although $start->{log} had ended it")
			if $ended && $replaced && $replaced->{begin} > $start->{end} + 3 * $SETTLE;
		wrong('D5', "item $item->{name}: $before->{log} held it to be its own after $start->{log} had begun it")
			if $before && $before->{end} < $NEVER && $before->{end} > $start->{begin} && $before->{mine};
		$before = $start;
	}
}

sub same_period {
	my ($item, $before, $start) = @_;
	return !$item->{period} || $before->{due} == $start->{due};
}

# A reschedule starts again what runs at most once and was made FAILED because something befell its process.
sub revived {
	my ($item, $before, $start) = @_;
	for my $move (may_have_happened(@{ $item->{moves} })) {
		next if $move->{end} < $before->{begin} || $move->{begin} > $start->{begin};
		my ($from, $to) = ($before->{begin} - $lease, min($move->{end}, $start->{begin}));
		return 1 if away($from, $to) || blows($before->{log}, $from, $to);
	}
	return 0;
}

# D3: starts and effects by mode.  Of a periodic one: of each period.
sub by_mode {
	my ($item) = @_;
	my $before;
	for my $start (@{ $item->{starts} }) {
		wrong('D3', "item $item->{name} of kind $item->{kind} ran as kind $start->{kind}") if $start->{kind} != $item->{kind};
	}
	if ($item->{kind} == $AT_MOST_ONCE) {
		for my $start (sort { $a->{begin} <=> $b->{begin} } @{ $item->{starts} }) {
			wrong('D3', "item $item->{name} runs at most once, and started again after it "
				. ($before->{end} == $NEVER ? 'had not ended' : 'had ended well'))
				if $before && same_period($item, $before, $start) && ($before->{end} == $NEVER || $before->{rc} == 0)
				&& !revived($item, $before, $start);
			$before = $start;
		}
	}
	wrong('D3', "item $item->{name} has $item->{effects} effects") if $item->{effects} > 1 && !$item->{period};
	wrong('D3', "item $item->{name} has an effect and no start") if $item->{effects} && !@{ $item->{starts} };
	# A run's end is written down before its task returns, so also before its commit.
	wrong('D3', "item $item->{name} has an effect, and none of its runs returned 0")
		if $item->{effects} && !$item->{period} && @{ $item->{starts} } && !any { ($_->{rc} // -1) == 0 } @{ $item->{starts} };
}

# Periodic: each run serves the period after those that the last good one served; none is left out, none is served twice.
sub each_period {
	my ($item, $count) = @_;
	my $name = $item->{name};
	return unless $item->{period};
	my (@serving, %started); # the starts that serve the same time on the grid
	for my $start (sort { $a->{begin} <=> $b->{begin} } @{ $item->{starts} }) {
		my $due = $start->{due};
		my $before = $serving[-1];
		$count->{periods}++ unless $started{$due}++;
		my $moved = $before && any { $_->{end} >= $before->{begin} && $_->{begin} <= $start->{begin}
			&& (@clock || ($due >= $_->{begin} + $_->{delay} && $due <= $_->{end} + $_->{delay})) } may_have_happened(@{ $item->{moves} });
		if (!$before || $moved) {
			@serving = ($start);
		} elsif ($due == $before->{due}) {
			push @serving, $start;
		} elsif (any { $due == $_->{due} + ($_->{missed} + 1) * $item->{period} } grep { ($_->{rc} // -1) == 0 } @serving) {
			wrong('period', "item $name has no effect for the time $before->{due}")
				if $item->{kind} == $TRANSACTION && !$item->{effect}{ $before->{due} };
			@serving = ($start);
		} elsif ($due > $before->{due} || undisturbed($start->{log}, $start->{begin})) {
			wrong('period', "item $name served $due after $before->{due}, by the period of $item->{period}");
			@serving = ($start);
		}
	}
	for my $due (sort keys %{ $item->{effect} }) {
		wrong('period', "item $name has $item->{effect}{$due} effects for the time $due") if $item->{effect}{$due} > 1;
		wrong('period', "item $name has an effect and no start for the time $due") if !$started{$due};
		wrong('period', "item $name has an effect for the time $due, and no run for it returned 0")
			if $started{$due} && !any { $_->{due} == $due && ($_->{rc} // -1) == 0 } @{ $item->{starts} };
	}
}

# D4: never early on the database's clock, and the due time is the one that was asked for.
sub never_early {
	my ($item) = @_;
	my @times = map { $_->{begin} + $_->{delay} } may_have_happened(@{ $item->{puts} }, @{ $item->{moves} });
	my $since = min(0 + $NEVER, map { $_->{begin} } @{ $item->{puts} });
	for my $start (@{ $item->{starts} }) {
		my $clock = latest_clock($start->{begin}, $start->{log}, $since);
		wrong('D4', "item $item->{name} started " . ($start->{due} - $clock) . ' us early') if $clock < $start->{due};
		wrong('D4', "item $item->{name} was due " . (min(@times) - $start->{due}) . ' us before its time')
			if !@clock && @times && $start->{due} < min(@times);
	}
}

# D5, D6: nothing waits for long when somebody is there to run it.
sub never_late {
	my ($item, $late) = @_;
	my $before;
	for my $start (sort { $a->{begin} <=> $b->{begin} } @{ $item->{starts} }) {
		last if @clock; # due times jump with it
		my $from = max($start->{due}, map { defined $_->{told} ? $_->{end} : 0 } @{ $item->{puts} }, @{ $item->{moves} });
		my $log = $before && $start->{attempt} == $before->{attempt} + 1 ? $before->{log} : undef; # undef: begun by others in between
		$from = max($from, map { $_->{end} < $NEVER ? $_->{end} : $_->{begin} } $before // ()) if $start->{attempt} > 1;
		$from = max($from, map { $_ + $lease } blows($log, $from, $start->{begin})) if $start->{attempt} > 1;
		$from = max($from, map { $_->[1] } grep { $_->[0] <= $start->{begin} && $_->[1] >= $from } @away);
		$from = max($from, $before->{end} < $NEVER ? $before->{end} : $before->{begin}) if $before && $item->{period};
		$from = max($from, ends_before_it($item, $start->{begin}), kept_until($item, $start));
		my $waited = $start->{begin} - $from;
		$late->{worst} = max($late->{worst} // 0, $waited);
		never_still($item, $start, $from, $late) if defined $prompt && !$before && $start->{attempt} == 1;
		wrong('D5', "item $item->{name} waited $waited us for attempt $start->{attempt}") if $waited > $patience;
		$before = $start;
	}
}

# The shard of a start.
sub place {
	my ($start) = @_;
	return "$start->{kind}/" . $start->{id} % 1024 % $SHARDS;
}

# D5: a shard in which something is due, and that nothing disturbs, starts something, or its process starts rows of the kind in other shards; so a
# backlog is no fault.  What the nemesis does may disturb it
# until a lease and 2 s later: what it does to a process only if the shard is that process's, or has come to another; a user's lock the shards and the
# rows that it keeps.
sub never_still {
	my ($item, $start, $from, $late) = @_;
	return if defined $item->{of} || $item->{period} || any { $_->{on} && ($_->{told} // 0) == ECONNRESET } @{ $item->{puts} };
	my $place = place($start);
	my @kept = map { min($_->{end}, $start->{begin}) } grep { $_->{keeps}{$place} || $_->{keeps}{"id=$start->{id}"} } locked($from, $start->{begin});
	$from = max($from, $start->{before} ? $start->{before}{begin} : 0, $start->{busy}, @kept, $start->{act} + $lease + 2_000_000);
	my $stood = $start->{begin} - $from;
	$late->{stood} = max($late->{stood} // 0, $stood);
	wrong('D5', "item $item->{name} was due, and nothing of shard $place started for $stood us") if $stood > $prompt;
}

# D5: nor does what somebody takes away before it starts again, or what is left.
sub never_forgotten {
	my ($item, $rows) = @_;
	my $by = replaced($item);
	return if @clock || is_ruled($item) || !happened(@{ $item->{puts} }) || (!$by && may_be_replaced($item)) || any { may_be_dropped($_) } @{ $item->{puts} };
	my $until = min((map { $_->{begin} } happened(@{ $item->{cancels} }), $by // ()), (any { $_->{state} == 1 } @$rows) ? $over : ());
	return unless defined $until;
	my $last = (sort { $a->{begin} <=> $b->{begin} } grep { $_->{begin} < $until } @{ $item->{starts} })[-1];
	my $from = 0;
	if ($last) {
		my @blows = map { $_ + $lease } $last->{end} == $NEVER ? blows($last->{log}, $last->{begin} - $lease, $until) : ();
		return if $last->{end} == $NEVER ? !@blows : ($last->{rc} == 0 && !$item->{period});
		return if ($last->{rc} // -1) != 0 && $last->{attempt} > $max_attempts / 2; # it may be FAILED
		$from = max(@blows, $last->{end} < $NEVER ? $last->{end} : $last->{begin});
		$from = max($from, $last->{due} + ($last->{missed} + 1) * $item->{period}) if ($last->{rc} // -1) == 0;
	}
	$from = max($from, map { $_->{end} + $_->{delay} } grep { $_->{begin} < $until && (!$last || $_->{end} >= $last->{begin}) }
		may_have_happened(@{ $item->{puts} }, @{ $item->{moves} }));
	$from = max($from, ends_before_it($item, $until));
	return if !$from; # what took it away had begun before it was put: that replaced what it was to take
	return if $from >= $until || ($item->{kind} == $AT_MOST_ONCE && (away($from - $lease, $until) || blows(undef, $from - $lease, $until)));
	$from = max($from, map { $_->[1] } grep { $_->[0] <= $until && $_->[1] >= $from } @away);
	wrong('D5', "item $item->{name} waited " . ($until - $from) . ' us and was taken away, or left') if $until - $from > $patience;
}

# The run counts as in progress at a time.  Not if its process was struck before, and has lost the shard to the process of `start`.
sub in_progress {
	my ($run, $time, $start) = @_;
	return $run->{end} >= $time && ($run->{epoch} == $start->{epoch}
		|| !(blows($run->{log}, $run->{begin} - $lease, $time - $lease / 2)
			|| grep { $_->[0] eq $run->{log} && $_->[1] >= $run->{begin} && $_->[1] <= $time } @lost));
}

# A cancel of a series, or a put that replaces what runs, makes the run in progress the last: also one that had been begun, and starts a moment
# later, at most.  That may follow a run that ends during the call.
sub is_last_run {
	my ($item, $by, $start) = @_;
	return ($start->{due} <= $by->{end} || @clock) && !grep { $_ != $start && $_->{begin} <= $start->{begin}
		&& ($_->{begin} > $by->{end} || in_progress($_, $by->{end}, $start)) } @{ $item->{starts} };
}

# D6: no start after a cancel that returned 0, none of what was replaced, none before the new time after a reschedule.
sub no_start_after {
	my ($item) = @_;
	my $by = replaced($item);
	for my $start (@{ $item->{starts} }) {
		for my $cancel (grep { !$item->{puts}[0]{replace} || $_->{begin} > $item->{puts}[0]{end} } happened(@{ $item->{cancels} })) {
			wrong('D6', "item $item->{name} started " . ($start->{begin} - $cancel->{end}) . ' us after its cancel had returned 0')
				if $start->{begin} > $cancel->{end} && !($item->{period} && is_last_run($item, $cancel, $start));
		}
		wrong('D6', "item $item->{name} started " . ($start->{begin} - $by->{end}) . " us after item $by->{item}{name} had replaced it")
			if $by && $start->{begin} > $by->{end} && !is_last_run($item, $by, $start);
		for my $move (happened(@{ $item->{moves} })) {
			next if @clock || $start->{begin} <= $move->{end} || $item->{puts}[0]{end} >= $move->{begin};
			next if grep { $_ != $move && $_->{end} >= $move->{begin} } may_have_happened(@{ $item->{moves} });
			wrong('D6', "item $item->{name} started before the time that a reschedule had given it")
				if $start->{begin} < $move->{begin} + $move->{delay};
			wrong('D6', "item $item->{name} was due at another time than a reschedule had given it")
				if $start->{begin} >= $move->{begin} + $move->{delay} && $start->{due} < $move->{begin} + $move->{delay}
				&& undisturbed($start->{log}, $start->{begin});
		}
	}
}

# What a key names: at most one timeout at a time.  A timeout was there from the first answer that says so to the last sign of it.
sub one_for_each_key {
	my ($rows) = @_;
	my %lives;
	while (my ($id, $items) = each %versions) {
		next unless defined $items->[0]{key};
		my @puts = map { happened(@{ $_->{puts} }) } @$items;
		my @starts = grep { undisturbed($_->{log}, $_->{begin}) } map { @{ $_->{starts} } } @$items;
		my @signs = map { $_->{begin} } @starts, happened(@{ $cancels{$id} // [] }, @{ $moves{$id} // [] }), grep { $_->{replace} } @puts;
		push @signs, $NEVER if any { $rows->{ $_->{name} } } @$items;
		my ($from, $to) = (min($NEVER, map { $_->{end} } @puts), max(0, @signs));
		push @{ $lives{ $items->[0]{key} } }, [$from, $to, $id] if $from < $to;
	}
	for my $key (sort keys %lives) {
		my $last;
		for my $life (sort { $a->[0] <=> $b->[0] } @{ $lives{$key} }) {
			wrong('key', "key $key named the timeouts $last->[2] and $life->[2] at a time") if $last && $last->[1] > $life->[0];
			$last = $life if !$last || $life->[1] > $last->[1];
		}
	}
}

# A series keeps its key until its last run has ended, also if a cancel made it the last.  If the process that had begun
# it died before it started, the key is kept until another one has taken over.
sub runs_out {
	my ($id, $put) = @_;
	my @series = grep { $_->{period} } @{ $versions{$id} // [] } or return 0;
	return any { $_->{end} + $lease + 3 * $SETTLE >= $put->{begin} } (map { @{ $_->{starts} } } @series), happened(@{ $cancels{$id} // [] });
}

# A put is refused by a timeout that has its key; one that replaces never is.
sub refused_by_its_key {
	my ($put) = @_;
	my ($name, $key, $id) = ($put->{item}{name}, $put->{item}{key}, $put->{id});
	return unless $put->{rc} == EEXIST || $put->{rc} == EBUSY;
	my @keys = grep { defined } $put->{group} ? map { $_->{item}{key} } @{ $group{ $put->{group} } } : $key;
	wrong('key', "item $name was refused by its key and has none") unless @keys;
	wrong('key', "item $name was refused as if timeout $id ran") if $put->{rc} == EBUSY;
	wrong('key', "item $name was refused by its key, which it was to replace")
		if @keys && !grep { defined $_->{item}{key} && !$_->{replace} } $put->{group} ? @{ $group{ $put->{group} } } : $put;
	my %times;
	my @others = grep { $_ != $put && $_->{begin} < $put->{end} && ($_->{group} // '') ne ($put->{group} // 'none') }
		may_have_happened(map { @{ $by_key{$_} } } @keys);
	wrong('key', "item $name was refused by its key, which nothing else had") if !$id && @keys && !@others && !any { $times{$_}++ } @keys;
	return unless $id;
	was_said_to_run($id, $put);
	wrong('key', "item $name was refused by timeout $id, which was done")
		if any { defined $_->{rc} && $_->{rc} == 0 && $_->{end} + 3 * $SETTLE < $put->{begin} && undisturbed($_->{log}, $_->{end}) }
			map { @{ $_->{starts} } } grep { !$_->{period} && ($_->{kind} != $TRANSACTION || $_->{effects}) && !may_be_replaced($_) }
			@{ $versions{$id} // [] };
	wrong('key', "item $name was refused by timeout $id, which has another key")
		if defined $versions{$id} && !any { $_ eq ($versions{$id}[0]{key} // '') } @keys;
	wrong('key', "item $name was refused by timeout $id, which had been cancelled")
		if !runs_out($id, $put) && any { $_->{end} < $put->{begin} && !put_again($id, $_) } happened(@{ $cancels{$id} // [] });
}

# A series that was cancelled while it ran may be replaced before that run has ended.
sub put_again {
	my ($id, $cancel) = @_;
	my @versions = @{ $versions{$id} // [] };
	return (any { $_->{period} } @versions) && any { $_->{replace} && $_->{end} >= $cancel->{begin} } may_have_happened(map { @{ $_->{puts} } } @versions);
}

# The earliest time at which a timeout can have run; undef: not known.
sub earliest {
	my ($id) = @_;
	my $key = first { defined } map { $_->{key} } @{ $versions{$id} // [] };
	return if @clock || !$versions{$id};
	return min(map { $_->{begin} + $_->{delay} } may_have_happened((map { @{ $_->{puts} } } @{ $versions{$id} }), @{ $moves{$id} // [] },
		grep { !defined $_->{item}{id} } @{ defined $key ? $by_key{$key} : [] }));
}

sub was_said_to_run {
	my ($id, $question) = @_;
	my $earliest = $question->{rc} == EBUSY ? earliest($id) : undef;
	wrong('D6', "timeout $id was said to run, " . ($earliest - $question->{end}) . ' us before its time')
		if defined $earliest && $question->{end} < $earliest - $AHEAD;
}

# What is not found was never put, or is over.
sub was_not_found {
	my ($id, $question, $rows) = @_;
	my @puts = map { @{ $_->{puts} } } @{ $versions{$id} // [] };
	return unless $question->{rc} == ENOENT && any { defined $_->{told} && $_->{told} == 0 && $_->{end} < $question->{begin} } @puts;
	return if away($question->{begin} - $lease, $question->{end} + $lease);
	my @starts = grep { undisturbed($_->{log}, $_->{begin}) } map { @{ $_->{starts} } } @{ $versions{$id} };
	wrong('D1', "timeout $id was not found by $question->{log}, and was there")
		if any { $_->{begin} > $question->{end} } @starts, happened(@{ $cancels{$id} // [] }, @{ $moves{$id} // [] })
			or any { any { $_->{id} == $id } @{ $rows->{ $_->{name} } // [] } } @{ $versions{$id} };
}

# A copy is a moment of the whole: what has its effect there has no row there, and what was put in a transaction has its intent.
sub judge_copy {
	my ($file) = @_;
	my ($rows, $effects, $intents) = read_tables($file);
	(my $copy = $file) =~ s{.*/}{};
	judge_group_copy($copy, $rows);
	for my $name (sort keys %$effects) {
		my %times;
		wrong('D3', "$copy: item $name has two effects") if any { $times{$_}++ } @{ $effects->{$name} };
		wrong('D3', "$copy: item $name has its effect and its row") if $rows->{$name} && !($item{$name} && $item{$name}{period});
	}
	for my $name (sort keys %$rows) {
		my @puts = $item{$name} ? may_have_happened(@{ $item{$name}{puts} }) : ();
		wrong('D1', "$copy: item $name was put by nobody") unless @puts;
		wrong('D1', "$copy: item $name was put in a transaction, and its intent is not there") if @puts && $puts[0]{on} && !$intents->{$name};
	}
}

# Groups

# Of a group, and of its kind.
sub rules_of {
	my ($of) = @_;
	(my $kind = $of) =~ s{/.*}{/-};
	return grep { defined } map { $rules{$_} } uniq($of, $kind);
}

# News of rules have come by then, if nothing disturbs them.
sub news { return $lease / 3 + $SETTLE / 3 }

# The limits that may count at a time.
sub limits {
	my ($of, $time) = @_;
	my @asked = grep { $_->{begin} <= $time } @{ ($rules{$of} // {})->{limit} // [] };
	my @known = grep { $_->{rc} == 0 && $_->{end} + news() < $time } @asked;
	return unless @known; # before them there were none
	my $newest = max(map { $_->{begin} } @known);
	return grep { ($_->{rc} == 0 || $_->{rc} == ECONNRESET) && $newest <= $_->{end} } @asked;
}

# G1: no more run at a time under one epoch than may, and none starts without a token.
sub judge_limits {
	my ($of, $starts) = @_;
	my ($full, @running) = (0);
	for my $start (@$starts) {
		@running = grep { $_->{end} > $start->{begin} && $_->{epoch} == $start->{epoch} } @running;
		push @running, $start;
		my @limits = limits($of, $start->{begin}) or next;
		my $most = (any { $_->{values}[0] == 0 } @limits) ? 0 : max(map { $_->{values}[0] } @limits);
		wrong('G1', "item $start->{item} started as number " . @running . " of group $of, of which $most may run") if $most && @running > $most;
		my ($every, $burst) = @{ $limits[-1]{values} }[1, 2];
		next if !$every || @clock || !undisturbed($start->{log}, $start->{begin}) || 1 < uniq(map { "@{ $_->{values} }" } @limits);
		my $token = $full - ($burst - 1) * $every;
		wrong('G1', "item $start->{item} started " . ($token - $start->{begin}) . " us before group $of had a token")
			if $token - $SETTLE / 3 > $start->{begin};
		$full = max($full, $start->{begin}) + $every;
	}
}

# What is paused does not start, once the news have come.
sub judge_pauses {
	my ($of, $starts) = @_;
	for my $rules (rules_of($of)) {
		for my $halt (happened(@{ $rules->{halt} // [] })) {
			my $until = min($NEVER, map { $_->{begin} } grep { $_->{end} > $halt->{begin} - $LINGER } @{ $rules->{resume} // [] });
			for my $start (grep { $_->{begin} > $halt->{end} + news() && $_->{begin} < $until } @$starts) {
				next if away($halt->{end} - $lease, $start->{begin}) || !undisturbed($start->{log}, $start->{begin});
				wrong('pause', "item $start->{item} started " . ($start->{begin} - $halt->{end}) . " us after the pause of group $of");
			}
		}
	}
}

# The ends of the storms of a kind that raged in that time.
sub stormy {
	my ($kind, $from, $to) = @_;
	return map { $_->[1] } grep { $_->[0] <= $to && $_->[1] >= $from } @{ $storms{$kind} // [] };
}

# Each reason to wait is one that there is: no timeout has a zone, a process that tells is there, and what rules keep back has rules.
sub judge_waits {
	my %words = (pause => 'halt', cap => 'limit', rate => 'limit', elsewhere => 'limit');
	for my $told (grep { undisturbed($_->{log}, $_->{time}) } @waits) {
		my $time = $told->{time};
		for my $why (@{ $told->{why} }) {
			my @rules = map { $rules{$_} } grep { m{^$told->{kind}/} } keys %rules;
			my @asked = grep { $_->{begin} <= $time } map { my $rules = $_; grep { my $asked = $_;
				$why ne 'pause' || !any { $_->{rc} == 0 && $_->{begin} > $asked->{end} && $_->{end} + news() + $lease < $time } @{ $rules->{resume} // [] } }
				@{ $rules->{ $words{$why} // '' } // [] } } @rules;
			wrong('waits', "$told->{log} says $why of kind $told->{kind} at $time, and that is not so")
				if $why =~ /^(?:zone|nobody)$/ || ($words{$why} && !@asked && !stormy($told->{kind}, $time - news() - $lease, $time));
		}
	}
}

# A copy: what runs, on whichever process, or was begun on one that has died.
sub judge_group_copy {
	my ($copy, $rows) = @_;
	my %count;
	for my $row (grep { defined $_->{of} && $_->{state} == 2 } map { @$_ } values %$rows) { $count{"$row->{kind}/$row->{of}"}++ }
	for my $of (sort keys %count) {
		my @all = map { $_->{values}[0] } @{ ($rules{$of} // {})->{limit} // [] };
		next if !@all || any { $_ == 0 } @all;
		wrong('G1', "$copy: $count{$of} of group $of run, of which " . max(@all) . ' may') if $count{$of} > max(@all);
	}
}

# Until when the rules of its group may have kept something from starting that starts at a time: others of it ran, or it was paused.
sub kept_until {
	my ($item, $start) = @_;
	my @storms = ($item->{of} // '') =~ m{/s} ? map { min($_, $start->{begin}) } stormy($item->{kind}, 0, $start->{begin}) : ();
	my @rules = defined $item->{of} ? rules_of($item->{of}) : map { $rules{"$item->{kind}/-"} // () } 1;
	return @storms unless @rules || @storms;
	return @storms, map { min($_, $start->{begin}) } $start->{others} // 0,
		(map { $_->{end} < $NEVER ? $_->{end} : $_->{begin} } grep { $_->{begin} < $start->{begin} } map { @{ $_->{resume} // [] } } @rules);
}

sub is_ruled {
	my ($item) = @_;
	return 1 if ($item->{of} // '') =~ m{/s} && $storms{ $item->{kind} };
	return defined $item->{of} ? rules_of($item->{of}) : $rules{"$item->{kind}/-"};
}

# How long nothing ran around each fail-over of a cluster, beside its own time.
sub fail_overs {
	my @begins = sort { $a <=> $b } map { $_->{begin} } @all_starts;
	for my $away (grep { $_->[2] && $_->[1] < $NEVER } @away) {
		my ($from, $to, $what) = @$away;
		my ($quiet, $longest) = ($from, [$from, $from]);
		for my $begin (grep { $_ > $from && $_ < $to + 30_000_000 } @begins) {
			$longest = [$quiet, $begin] if $begin - $quiet > $longest->[1] - $longest->[0];
			$quiet = $begin;
		}
		printf "# %s: another node writes after %.2f s; nothing ran for %.2f s, %.2f s of them beyond that\n",
			$what, ($to - $from) / 1e6, ($longest->[1] - $longest->[0]) / 1e6, max(0, $longest->[1] - $to) / 1e6;
	}
}

# Ids are never used again: a timeout has one, and another item only by a put that replaced it.
sub ids_are_unique {
	my ($item, $rows) = @_;
	my @ids = uniq((map { $_->{id} } grep { $_->{id} } happened(@{ $item->{puts} })), (map { $_->{id} } @{ $item->{starts} }, @$rows));
	for my $id (@ids) {
		my $of = $versions{$id}[0];
		wrong('D1', "id $id is that of items $of->{name} and $item->{name}")
			if $of != $item && !(defined $item->{key} && ($of->{key} // '') eq $item->{key} && ($of->{puts}[0]{replace} || $item->{puts}[0]{replace}));
		wrong('D1', "item $item->{name} has the ids $ids[0] and $id") if $id != $ids[0];
	}
}

# What the logs say of an item and of what had its id or its key, in the order of time: the first lines and the last ones.
sub story {
	my ($name) = @_;
	my $item = $item{$name};
	my @related = ($item, (map { @{ $versions{$_} // [] } } grep { defined } $item->{id}),
		(map { $_->{item} } map { @{ $by_key{$_} // [] } } grep { defined } $item->{key}));
	my %of = map { $_->{name} => 1 } @related;
	my %id = map { $_ => 1 } grep { $_ } map { ($_->{id}, map { $_->{id} } @{ $_->{puts} }) } @related;
	my @lines;
	for my $file (glob "$folder/*.log") {
		my ($log) = $file =~ m{([^/]+)\.log$};
		open my $in, '<', $file or next;
		while (<$in>) {
			my ($time, $event, @more) = split;
			push @lines, "$time $log $event @more" if defined $event
				&& ($event =~ /^(?:put|cancel|move|start|end)/ ? $of{ $more[0] } || $id{ $more[1] } : $log eq 'nemesis');
		}
	}
	@lines = sort { ($a =~ /^(-?\d+)/)[0] <=> ($b =~ /^(-?\d+)/)[0] } @lines;
	my $own = first { $lines[$_] =~ / \Q$name\E / } 0 .. $#lines;
	splice @lines, 0, max(0, $own - 10) if defined $own;
	splice @lines, 40, @lines - 80, '...' if @lines > 80;
	return @lines;
}

# The whole

for my $file (sort glob "$folder/*.log") {
	my ($log) = $file =~ m{([^/]+)\.log$};
	read_log($file, $log);
}
wrong('log', "the outage of $_->[0] was never over") for grep { $_->[1] == $NEVER } @away;
@clock = () unless grep { $_->[1] != 0 } @clock;
my ($rows, $effects, $intents) = read_tables("$folder/database.tables");
for my $name (keys %$effects) {
	item($name)->{effects} = @{ $effects->{$name} };
	item($name)->{effect}{$_}++ for @{ $effects->{$name} };
}
item($_) for keys %$rows;
end_questions_of_the_dead();
decide_transactions($intents);
decide_groups($rows);
find_ids($rows);
push @{ $by_key{ $_->{key} } }, @{ $_->{puts} } for grep { defined $_->{key} } values %item;
my (%before, %busy, %last, $newest, %others); # the last start of each shard, of each process and kind; the last act on each process, and on all ('')
my $surprises = grep { my ($log, $time) = @$_; !any { $_ > $time - 2 * $lease - 2_000_000 && $_ <= $time } @acts, @{ $acts_on{$log} // [] } } @lost;
push @{ $acts_on{ $_->[0] } }, $_->[1] for @lost;
$acts_on{''} = \@acts;
my @all_acts = sort { $a->[0] <=> $b->[0] } map { my $log = $_; map { [$_, $log] } @{ $acts_on{$log} } } keys %acts_on;
for my $start (sort { $a->{begin} <=> $b->{begin} } @all_starts) {
	my $before = $start->{before} = $before{ place($start) };
	while (@all_acts && $all_acts[0][0] <= $start->{begin}) {
		my ($time, $log) = @{ shift @all_acts };
		$newest = $last{$log} = $time;
	}
	my $same = $before && $before->{epoch} == $start->{epoch};
	$start->{act} = $same ? max(0, map { $last{$_} // () } '', $start->{log}) : $newest // 0;
	$start->{busy} = $same ? $busy{"$start->{log} $start->{kind}"} : 0;
	$busy{"$start->{log} $start->{kind}"} = $start->{begin};
	$before{ place($start) } = $start;
	my $of = $item{ $start->{item} }{of};
	push @{ $of_group{ $of // "$start->{kind}/-" } }, $start;
	next unless defined $of;
	$start->{others} = $others{$of}; # when the last of those of its group ended that had begun before it
	$others{$of} = max($others{$of} // 0, $start->{end} < $NEVER ? $start->{end} : $start->{begin} + $lease);
}
my (%count, %late);
for my $item (map { $item{$_} } sort { $a <=> $b } keys %item) {
	my $rows = $rows->{ $item->{name} } // [];
	if (!@{ $item->{puts} }) {
		wrong('D1', "item $item->{name} was put by nobody");
		next;
	}
	one_fate($item, $rows, \%count);
	ids_are_unique($item, $rows);
	$_->($item) for \&no_two_ends, \&by_mode, \&never_early, \&no_start_after;
	never_late($item, \%late);
	never_forgotten($item, $rows);
	each_period($item, \%count);
	for my $put (@{ $item->{puts} }) {
		refused_by_its_key($put);
		$count{replacing}++ if $put->{replace} && $put->{rc} == 0;
		$count{overtaking}++ if $put->{replace} && $put->{rc} == 0 && overtakes($put);
		$count{ $put->{rc} == 0 ? 'committed' : 'rolled_back' }++ if $put->{on};
		$count{ $put->{rc} == 0 ? 'together' : 'not_together' }++ if ($put->{group} // '') eq $item->{name};
	}
}
for my $id (sort { $a <=> $b } uniq(keys %cancels, keys %moves)) {
	for my $question (@{ $cancels{$id} // [] }, @{ $moves{$id} // [] }) {
		was_said_to_run($id, $question);
		was_not_found($id, $question, $rows);
	}
}
one_for_each_key($rows);
for my $of (sort keys %of_group) {
	judge_limits($of, $of_group{$of});
	judge_pauses($of, $of_group{$of});
}
judge_waits();
judge_copy($_) for sort glob "$folder/*.copy";

my @fates = qw(done cancelled replaced FAILED left lost);
printf "# %d accepted = %d done + %d cancelled + %d replaced + %d FAILED + %d left; %d lost; %d refused, %d unknown\n",
	map { $count{$_} // 0 } 'accepted', @fates, qw(refused unknown);
wrong('log', 'the sum is not right') if ($count{accepted} // 0) != sum0(map { $count{$_} // 0 } @fates);
printf "# %d put with a replacing key, %d while it ran, %d in transactions and %d rolled back, %d groups and %d refused, %d periods served\n",
	map { $count{$_} // 0 } qw(replacing overtaking committed rolled_back together not_together periods);
for my $kind (0 .. 2) {
	printf "#   %-13s %d done, %d cancelled, %d replaced, %d FAILED, %d left\n", ('at least once', 'at most once', 'transaction')[$kind],
		map { $count{by_kind}[$kind]{$_} // 0 } @fates[0 .. 4];
}
printf "# %d starts, %d after the first; the longest wait %.2f s\n", scalar @all_starts,
	sum0(map { max(0, @{ $_->{starts} } - 1) } values %item), ($late{worst} // 0) / 1e6;
printf "# %d starts in groups with a limit, %d pauses\n", sum0(map { scalar @{ $of_group{$_} // [] } } grep { $rules{$_}{limit} } keys %rules),
	sum0(map { scalar happened(@{ $_->{halt} // [] }) } values %rules);
printf "# of %d reasons to wait %d are pauses\n", sum0(map { scalar @{ $_->{why} } } @waits), scalar grep { $_ eq 'pause' } map { @{ $_->{why} } } @waits;
printf "# acts: %s\n", join ', ', map { "$acts{$_} $_" } sort keys %acts if $prompt;
printf "# %d locks of users, %d by sessions that stood still, of which %d were ended; an undisturbed shard stood still for %.2f s at most\n",
	scalar @locks, scalar(grep { $_->{name} =~ /^frozen/ } @locks), scalar(grep { $_->{name} =~ /^frozen/ && $_->{ended} } @locks),
	($late{stood} // 0) / 1e6 if $prompt;
printf "# %d leases lost, %d of them when nothing had been done\n", scalar @lost, $surprises if $prompt;
fail_overs();
print "# $_\n" for @shown;
for my $name (uniq(map { /^\S+ item (\d+)/ ? $1 : () } @shown)) {
	print "# the story of item $name\n", map { "#   $_\n" } story($name) if --$stories >= 0;
}
printf "# %s: %d\n", $_, $wrong{$_} for sort keys %wrong;
exit(%wrong ? 1 : 0);
