#!/usr/bin/perl
# SPDX-License-Identifier: BSD-2-Clause
# history.pl FOLDER: judges what a store did by what its users saw.
#
# Every process of a test writes a log: what it asked for, what it was answered, each start and each end of a task.  The nemesis writes what it did
# to them.  When all is over the tables are written down.  This program reads it all, knows nothing of the store's inside, and demands its promises
# D1 to D6 (include/hwt_store.h).  It prints what breaks them and a summary, and its status is 1 if something did.
#
# FOLDER/*.log, one for each process; a line is written by one write(2), so a kill loses none of those before.  All times are microseconds on one
# clock that nobody sets.  ITEM is the user's own number of a timeout, which travels as its data.  RC is an errno value.  KIND is the mode: 0 at least
# once, 1 at most once, 2 transaction.
#
#     TIME put? ITEM KIND DELAY          TIME put ITEM RC ID
#     TIME cancel? ITEM ID               TIME cancel ITEM ID RC
#     TIME move? ITEM ID DELAY           TIME move ITEM ID DELAY RC
#     TIME start ITEM ID KIND ATTEMPT EPOCH DUE          EPOCH: of its shard
#     TIME end ITEM ID ATTEMPT EPOCH RC MINE             MINE: hwt_store_is_mine(), asked after TIME
#     TIME lost                                          this process lost its lease
#
# FOLDER/nemesis.log
#
#     TIME world LEASE ATTEMPTS PATIENCE                 the lease, max_attempts, and how late a start may be
#     TIME kill|stop|cont PROCESS                        PROCESS: its log without .log
#     TIME away [WHAT] | back                            from then to then nobody could work; WHAT was done to a cluster
#     TIME clock OFFSET                                  the database's clock is now ahead by this
#
# FOLDER/database.tables at the end, and *.copy, taken while everything ran
#
#     row ITEM ID KIND STATE ATTEMPT                     STATE: 1 pending, 2 running, 3 FAILED
#     effect ITEM
#
# What is not known counts as either: a put or cancel whose answer is ECONNRESET, or never came, may have happened or not.
use strict;
use warnings;
use Errno qw(ECONNRESET);
use List::Util qw(max min first sum0);

my ($folder) = @ARGV;
die "usage: history.pl FOLDER\n" unless @ARGV == 1 && -d $folder;
my ($AT_LEAST_ONCE, $AT_MOST_ONCE, $TRANSACTION) = (0, 1, 2);
my $NEVER = 9e18;
my $SETTLE = 3_000_000; # by then the end of a run is in the database, if nothing disturbs it

my (%item, %by_id, %trouble, %blow, @away, @clock, @all_starts);
my ($lease, $max_attempts, $patience) = (2_000_000, 20, 60_000_000);
my (%wrong, @shown);

sub wrong {
	my ($rule, $text) = @_;
	push @shown, "$rule $text" if ++$wrong{$rule} <= 5;
}

# Reading

sub item {
	return $item{ $_[0] } //= { name => $_[0], puts => [], cancels => [], moves => [], starts => [], effects => 0 };
}

# Finds the question that an answer belongs to: the last one of this process without an answer.
sub answered {
	my ($asked, $log, $time, $rc) = @_;
	my $question = first { $_->{log} eq $log && $_->{end} == $NEVER } reverse @$asked;
	return wrong('log', "$log: an answer without a question at $time") unless $question;
	@$question{ 'end', 'rc' } = ($time, $rc);
	return $question;
}

sub asked {
	my ($list, $log, $time, %more) = @_;
	push @$list, { log => $log, begin => $time, end => $NEVER, rc => ECONNRESET, %more };
}

my %reader = (
	'put?' => sub { my ($log, $time, $name, $kind, $delay) = @_;
		my $item = item($name);
		$item->{kind} = $kind;
		asked($item->{puts}, $log, $time, delay => $delay) },
	'put' => sub { my ($log, $time, $name, $rc, $id) = @_;
		my $put = answered(item($name)->{puts}, $log, $time, $rc);
		$put->{id} = $id if $put },
	'cancel?' => sub { my ($log, $time, $name) = @_; asked(item($name)->{cancels}, $log, $time) },
	'cancel' => sub { my ($log, $time, $name, undef, $rc) = @_; answered(item($name)->{cancels}, $log, $time, $rc) },
	'move?' => sub { my ($log, $time, $name, undef, $delay) = @_; asked(item($name)->{moves}, $log, $time, delay => $delay) },
	'move' => sub { my ($log, $time, $name, undef, undef, $rc) = @_; answered(item($name)->{moves}, $log, $time, $rc) },
	'start' => sub { my ($log, $time, $name, $id, $kind, $attempt, $epoch, $due) = @_;
		my $start = { item => $name, log => $log, begin => $time, id => $id, kind => $kind, attempt => $attempt, epoch => $epoch,
			due => $due, end => $NEVER };
		push @{ item($name)->{starts} }, $start;
		push @all_starts, $start },
	'end' => sub { my ($log, $time, $name, undef, $attempt, $epoch, $rc, $mine) = @_;
		my $start = first { $_->{log} eq $log && $_->{end} == $NEVER && $_->{epoch} == $epoch } reverse @{ item($name)->{starts} };
		return wrong('log', "$log: an end without a start, item $name") unless $start;
		@$start{ 'end', 'rc', 'mine' } = ($time, $rc, $mine) },
	'lost' => sub { my ($log, $time) = @_; push @{ $_->{$log} }, $time for \%trouble, \%blow },
	'world' => sub { (undef, undef, $lease, $max_attempts, $patience) = @_ },
	'cont' => sub { my (undef, $time, $process) = @_; push @{ $trouble{$process} }, $time },
	(map { $_ => sub { my (undef, $time, $process) = @_; push @{ $_->{$process} }, $time for \%trouble, \%blow } } qw(kill stop)),
	'away' => sub { my (undef, $time, @what) = @_; push @away, [$time, $NEVER, "@what"] },
	'back' => sub { my (undef, $time) = @_; $away[-1][1] = $time if @away },
	'clock' => sub { my (undef, $time, $offset) = @_; push @clock, [$time, $offset] },
);

sub read_log {
	my ($file, $log) = @_;
	open my $in, '<', $file or die "$file: $!\n";
	while (<$in>) {
		next unless /\n\z/; # the last line of one that was killed by the disk
		my ($time, $event, @more) = split;
		my $read = $reader{ $event // '' } or next;
		$read->($log, $time, @more);
	}
}

sub read_tables {
	my ($file) = @_;
	my (%row, %effects);
	open my $in, '<', $file or die "$file: $!\n";
	while (<$in>) {
		my ($what, $name, @more) = split;
		$what eq 'effect' ? $effects{$name}++ : push @{ $row{$name} }, { map { $_ => shift @more } qw(id kind state attempt) };
	}
	return (\%row, \%effects);
}

# What is known of a process at a time

sub away {
	my ($from, $to) = @_;
	return first { $_->[0] <= $to && $_->[1] >= $from } @away;
}

# Nothing kept this process from committing an end that its task gave at this time.
sub undisturbed {
	my ($log, $time) = @_;
	return 0 if away($time - $lease, $time + $SETTLE);
	return !first { $_ >= $time - $lease && $_ <= $time + $SETTLE } @{ $trouble{$log} // [] };
}

# What took its rows from a process, or from any one, in that time: a kill, a stop, a lease that was lost.
sub blows {
	my ($log, $from, $to) = @_;
	return grep { $_ >= $from && $_ <= $to } map { @$_ } defined $log ? $blow{$log} // [] : values %blow;
}

# The furthest that the database's clock had come around a time.
sub latest_clock {
	my ($time) = @_;
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

# The rules

# D1, D2: what was accepted is done, cancelled, FAILED or left, and one of these.
sub one_fate {
	my ($item, $rows, $count) = @_;
	my $name = $item->{name};
	my @puts = @{ $item->{puts} };
	my $accepted = happened(@puts);
	my @cancelled = happened(@{ $item->{cancels} });
	my $ends = grep { ($_->{rc} // -1) == 0 && $_->{end} < $NEVER } @{ $item->{starts} };
	my $ran = $item->{kind} == $TRANSACTION ? $item->{effects} > 0 : $ends > 0;
	my $row = $rows->[0];

	if (!may_have_happened(@puts)) {
		$count->{refused}++;
		wrong('D1', "item $name was refused ($puts[0]{rc}), and is there all the same") if $row || @{ $item->{starts} } || $item->{effects};
		return;
	}
	$count->{ $accepted ? 'accepted' : 'unknown' }++;
	wrong('D1', "item $name has two rows") if @$rows > 1;
	wrong('D2', "item $name was cancelled twice") if @cancelled > 1;
	my @fates = ((@cancelled ? 'cancelled' : ()), ($row ? $row->{state} == 3 ? 'FAILED' : 'left' : ()));
	push @fates, 'done' if !@fates && $ran;
	push @fates, 'cancelled' if !@fates && may_have_happened(@{ $item->{cancels} }); # by a call that was not answered
	wrong('D2', "item $name is @fates") if @fates > 1;
	wrong('D2', "item $name has an effect and is $fates[0]") if $item->{effects} && @fates && $fates[0] ne 'done';
	if ($accepted && !@fates) {
		wrong('D1', "item $name was accepted and is lost");
		@fates = 'lost';
	}
	$count->{ $fates[0] }++ if $accepted;
	$count->{by_kind}[$item->{kind}]{ $fates[0] }++ if $accepted;
	failed($item, $row) if $row && $row->{state} == 3;
}

# Did something befall what runs at most once and is FAILED?  Either its last run, or a begin after it that no start followed.
sub befallen {
	my ($item, $last) = @_;
	my ($from, $to, $log) = (0, $NEVER);
	if ($last) {
		my $end = $last->{end} < $NEVER ? $last->{end} + $SETTLE : $NEVER;
		return 1 if away($last->{begin} - $lease, $end) || blows($last->{log}, $last->{begin} - $lease, $end);
		return 0 if $end == $NEVER || $last->{rc} == 0;
		$from = $last->{end};
	} elsif (!@clock) {
		my @dues = map { $_->{begin} + $_->{delay} } may_have_happened(@{ $item->{puts} }, @{ $item->{moves} });
		($from, $to) = (min(@dues), max(@dues) + $patience);
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
		if $last && $last->{end} < $NEVER && $last->{rc} == 0 && undisturbed($last->{log}, $last->{end});
	wrong('D2', "item $item->{name} runs at most once, and is FAILED although nothing befell it") if !befallen($item, $last);
}

# D2, D5: after the end of a run that nothing disturbed there is no other; no two processes run under one epoch.  The end of a transaction is that
# of its effect, which by_mode counts: the task may have returned 0, and the commit have failed.
sub no_two_ends {
	my ($item) = @_;
	my (%holder, $before);
	my $commits = $item->{kind} != $TRANSACTION;
	for my $start (sort { $a->{begin} <=> $b->{begin} } @{ $item->{starts} }) {
		my $of = $holder{ $start->{epoch} } //= $start->{log};
		wrong('D5', "item $item->{name} was begun under epoch $start->{epoch} by $of and $start->{log}") if $of ne $start->{log};
		wrong('D5', "item $item->{name} went back from epoch $before->{epoch} to $start->{epoch}")
			if $before && $start->{epoch} < $before->{epoch} && undisturbed($start->{log}, $start->{begin});
		wrong('D2', "item $item->{name} started again after $before->{log} had ended it")
			if $commits && $before && $before->{end} < $start->{begin} && $before->{rc} == 0 && undisturbed($before->{log}, $before->{end});
		wrong('D2', "item $item->{name} was cancelled although $start->{log} had ended it")
			if $commits && $start->{end} < $NEVER && $start->{rc} == 0 && undisturbed($start->{log}, $start->{end}) && happened(@{ $item->{cancels} });
		wrong('D5', "item $item->{name}: $before->{log} held it to be its own after $start->{log} had begun it")
			if $before && $before->{end} < $NEVER && $before->{end} > $start->{begin} && $before->{mine};
		$before = $start;
	}
}

# D3: starts and effects by mode.
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
				if $before && ($before->{end} == $NEVER || $before->{rc} == 0);
			$before = $start;
		}
	}
	wrong('D3', "item $item->{name} has $item->{effects} effects") if $item->{effects} > 1;
	wrong('D3', "item $item->{name} has an effect and no start") if $item->{effects} && !@{ $item->{starts} };
}

# D4: never early on the database's clock, and the due time is the one that was asked for.
sub never_early {
	my ($item) = @_;
	my @times = map { $_->{begin} + $_->{delay} } may_have_happened(@{ $item->{puts} }, @{ $item->{moves} });
	for my $start (@{ $item->{starts} }) {
		wrong('D4', "item $item->{name} started " . ($start->{due} - latest_clock($start->{begin})) . ' us early')
			if latest_clock($start->{begin}) < $start->{due};
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
		my $from = max($start->{due}, map { $_->{end} < $NEVER ? $_->{end} : 0 } @{ $item->{puts} }, @{ $item->{moves} });
		my $log = $before && $start->{attempt} == $before->{attempt} + 1 ? $before->{log} : undef; # undef: begun by others in between
		$from = max($from, map { $_->{end} < $NEVER ? $_->{end} : $_->{begin} } $before // ()) if $start->{attempt} > 1;
		$from = max($from, map { $_ + $lease } blows($log, $from, $start->{begin})) if $start->{attempt} > 1;
		$from = max($from, map { $_->[1] } grep { $_->[0] <= $start->{begin} && $_->[1] >= $from } @away);
		my $waited = $start->{begin} - $from;
		$late->{worst} = max($late->{worst} // 0, $waited);
		wrong('D5', "item $item->{name} waited $waited us for attempt $start->{attempt}") if $waited > $patience;
		$before = $start;
	}
}

# D6: no start after a cancel that returned 0, none before the new time after a reschedule.
sub no_start_after {
	my ($item) = @_;
	for my $start (@{ $item->{starts} }) {
		for my $cancel (happened(@{ $item->{cancels} })) {
			wrong('D6', "item $item->{name} started " . ($start->{begin} - $cancel->{end}) . ' us after its cancel had returned 0')
				if $start->{begin} > $cancel->{end};
		}
		for my $move (happened(@{ $item->{moves} })) {
			next if @clock || $start->{begin} <= $move->{end};
			next if grep { $_ != $move && $_->{end} >= $move->{begin} } may_have_happened(@{ $item->{moves} });
			wrong('D6', "item $item->{name} started before the time that a reschedule had given it")
				if $start->{begin} < $move->{begin} + $move->{delay};
		}
	}
}

# A copy is a moment of the whole: what has its effect there has no row there.
sub judge_copy {
	my ($file) = @_;
	my ($rows, $effects) = read_tables($file);
	for my $name (sort keys %$effects) {
		wrong('D3', "$file: item $name has $effects->{$name} effects") if $effects->{$name} > 1;
		wrong('D3', "$file: item $name has its effect and its row") if $rows->{$name};
	}
	for my $name (sort keys %$rows) {
		wrong('D1', "$file: item $name was put by nobody") unless $item{$name} && may_have_happened(@{ $item{$name}{puts} });
	}
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

# Ids are never used again.
sub ids_are_unique {
	my ($item, $rows) = @_;
	my @ids = ((map { $_->{id} } happened(@{ $item->{puts} })), (map { $_->{id} } @{ $item->{starts} }, @$rows));
	for my $id (@ids) {
		my $of = $by_id{$id} //= $item->{name};
		wrong('D1', "id $id is that of items $of and $item->{name}") if $of ne $item->{name};
		wrong('D1', "item $item->{name} has the ids $ids[0] and $id") if $id != $ids[0];
	}
}

# The whole

for my $file (sort glob "$folder/*.log") {
	my ($log) = $file =~ m{([^/]+)\.log$};
	read_log($file, $log);
}
@clock = () unless grep { $_->[1] != 0 } @clock;
my ($rows, $effects) = read_tables("$folder/database.tables");
item($_)->{effects} = $effects->{$_} for keys %$effects;
item($_) for keys %$rows;
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
}
judge_copy($_) for sort glob "$folder/*.copy";

printf "# %d accepted = %d done + %d cancelled + %d FAILED + %d left; %d lost; %d refused, %d unknown\n",
	map { $count{$_} // 0 } qw(accepted done cancelled FAILED left lost refused unknown);
for my $kind (0 .. 2) {
	printf "#   %-13s %d done, %d cancelled, %d FAILED, %d left\n", ('at least once', 'at most once', 'transaction')[$kind],
		map { $count{by_kind}[$kind]{$_} // 0 } qw(done cancelled FAILED left);
}
printf "# %d starts, %d after the first; the longest wait %.2f s\n", scalar @all_starts,
	sum0(map { max(0, @{ $_->{starts} } - 1) } values %item), ($late{worst} // 0) / 1e6;
fail_overs();
print "# $_\n" for @shown;
printf "# %s: %d\n", $_, $wrong{$_} for sort keys %wrong;
exit(%wrong ? 1 : 0);
