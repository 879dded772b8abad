#!/usr/bin/perl
# SPDX-License-Identifier: BSD-2-Clause
# random_mutants.pl SEED COUNT PATH...: draws faults for the sources below each PATH, equally many for each, and prints them as a table of
# planted faults.  The comment on an entry says where it is, and after a semicolon which programs find chosen faults in that file, those without a
# server first.
#
# Kinds: a comparison, and/or, plus/minus, a constant, a statement left out, a memory order weakened.  Each kind is drawn equally often.  What
# test/mutants-equivalent.txt lists is left out, and so is what is between quotation marks: SQL.
use strict;
use warnings;
require './test/mutate.pl';
our @files;

my %weaker = (
	acquire => ['relaxed'], release => ['relaxed'], acq_rel => [qw(relaxed acquire release)], seq_cst => [qw(relaxed acquire release)],
);
my %compared = ('<' => ['<=', '>='], '>' => ['>=', '<='], '<=' => ['<', '>'], '>=' => ['>', '<'], '==' => ['!='], '!=' => ['==']);
my %other = ('+' => '-', '-' => '+', '+=' => '-=', '-=' => '+=', '++' => '--', '--' => '++', '&&' => '||', '||' => '&&', '&' => '|', '|' => '&');

# Each kind: what to look for, and what may stand there instead.
my @kinds = (
	[comparison => qr/(?<= )(<=|>=|==|!=|<|>)(?= )/, sub { @{ $compared{ $_[0] } } }],
	[and_or => qr/(?<= )(&&|\|\||&|\|)(?= )/, sub { $other{ $_[0] } }],
	[negation => qr/(?:\bif|\bwhile|&&|\|\|) \(?\K(?=\w)()/, sub { '!' }],
	[sign => qr/(?<= )([-+]=?)(?= )|((?<=\w)\+\+|(?<=\w)--)/, sub { $other{ $_[0] } }],
	[constant => qr/(?<![\w.%])(\d+)(?![\w.])/, sub { $_[0] + 1, $_[0] > 0 ? $_[0] - 1 : () }],
	[constant => qr/\b(true|false)\b/, sub { $_[0] eq 'true' ? 'false' : 'true' }],
	[order => qr/memory_order_(acquire|release|acq_rel|seq_cst)\b/, sub { @{ $weaker{ $_[0] } } }],
);

# The lines of a source that ship, without comments; what is between quotation marks has become blanks in the second one.
sub code_of {
	my ($source) = @_;
	my $test = 0;
	my (@lines, @masked);
	for (split /\n/, main::blank_comments($source), -1) {
		$test++ if /^#ifdef HWT_TEST/ || ($test && /^#if/);
		$test = 0 if $test == 1 && /^#else/;
		my $skip = $test || /^#\s*(?!define)|HWTS?_(ASSERT|POINT|PROBE)|_Static_assert|static_assert|__asm__/;
		$test-- if $test && /^#endif/;
		s/\s+$//;
		push @lines, $_;
		push @masked, $skip ? '' : s/("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')/' ' x length $1/ger;
	}
	return (\@lines, \@masked);
}

# The line at which the statement that begins here ends; nothing if none does, or if it is a return with a value or a declaration, or if it says
# that a word begins at 0: all memory for them comes as zero bytes.
sub statement_end {
	my ($lines, $at) = @_;
	my $before = $at;
	do { $before-- } while $before > 0 && $lines->[$before] =~ /^\s*$/;
	return unless $lines->[$at] =~ /^\t+(?!return .|if\b|for\b|while\b|switch\b|else\b|do\b|case\b|default\b|[{}#.\[]|atomic_init\(.*, (?:0|NULL)\);)\S/;
	return unless $lines->[$before] =~ /([;{}:]|\belse|\bdo|^\t*(if|for|while)\b.*\))$/;
	for my $end ($at .. $at + 4) {
		return if !defined $lines->[$end] || $lines->[$end] =~ /[{}]|^#/;
		return $end if $lines->[$end] =~ /;$/;
	}
	return;
}

# All faults of a file: [kind, first line, last line, lines instead].
sub faults {
	my ($lines, $masked) = @_;
	my @faults;
	for my $at (0 .. $#$masked) {
		for (@kinds) {
			my ($kind, $pattern, $instead) = @$_;
			while ($masked->[$at] =~ /$pattern/g) {
				my ($found, $from, $to) = ($1 // $2, $-[1] // $-[2], $+[1] // $+[2]);
				for my $new ($instead->($found)) {
					my $line = $lines->[$at];
					substr $line, $from, $to - $from, $new;
					push @faults, [$kind, $at, $at, $line];
				}
			}
		}
		next if $masked->[$at] eq '';
		my $end = statement_end($lines, $at);
		push @faults, ['statement', $at, $end, $lines->[$at] =~ s/\S.*/;/r] if defined $end;
	}
	return @faults;
}

# Prints the fault as an edit for the table, with as many lines before it as make it unique in its file.
sub edit_of {
	my ($file, $source, $lines, $fault) = @_;
	my (undef, $first, $last, $new) = @$fault;
	my ($context, $old) = ('', join '', map { "$_\n" } @$lines[$first .. $last]);
	for (my $at = $first - 1; main::places($source, $context . $old) != 1; $at--) {
		return if $at < 0;
		$context = "$lines->[$at]\n$context" if $lines->[$at] =~ /\S/;
	}
	return { file => $file, context => $context, old => "$context$old", new => "$context$new\n" };
}

sub planted {
	my ($name, $edit) = @_;
	my %sources;
	return if main::plant({ name => $name, edits => [$edit] }, \%sources);
	return join "\0", map { $_, main::blank_comments($sources{$_}) =~ s/\s+//gr } sort keys %sources;
}

my ($seed, $count, @paths) = @ARGV;
srand $seed;
my (%programs, %known, %free, @pools, @drawn);
$programs{ main::path_of($_->{file}) // '' }{ $_->{program} }++ for main::entries('faults');
for my $entry (main::entries('test/mutants-equivalent.txt')) {
	my ($edit) = @{ $entry->{edits} };
	if ($edit->{new} =~ /^\.\.\.$/m) { # whatever stands there instead
		my $source = main::slurp(main::path_of($edit->{file}));
		for my $place (main::places($source, $edit->{old})) {
			my $first = substr($source, 0, $place->[0]) =~ tr/\n//;
			$free{ main::path_of($edit->{file}) }{$_} = 1 for $first .. $first + (substr($source, $place->[0], $place->[1]) =~ tr/\n//);
		}
	} else {
		$known{ planted($entry->{name}, $edit) // '' } = 1;
	}
}
for my $path (@paths) {
	my %kinds;
	for my $file (grep { index(main::path_of($_), $path) == 0 } @files) {
		my $source = main::slurp(main::path_of($file));
		my ($lines, $masked) = code_of($source);
		push @{ $kinds{ $_->[0] } }, { file => $file, source => $source, lines => $lines, fault => $_ } for
			grep { !$free{ main::path_of($file) }{ $_->[1] } } faults($lines, $masked);
	}
	push @pools, \%kinds if %kinds;
}
while (@drawn < $count && @pools) {
	my $kinds = shift @pools;
	my $kind = (sort keys %$kinds)[int rand keys %$kinds];
	push @drawn, splice @{ $kinds->{$kind} }, int rand @{ $kinds->{$kind} }, 1;
	delete $kinds->{$kind} unless @{ $kinds->{$kind} };
	push @pools, $kinds if %$kinds;
}
my $number = 0;
for my $drawn (@drawn) {
	my ($file, $fault) = @$drawn{qw(file fault)};
	my $edit = edit_of(@$drawn{qw(file source lines fault)}) or next;
	my $planted = planted('drawn', $edit);
	next if !defined $planted || $known{$planted}++;
	my $found = $programs{ main::path_of($file) } // {};
	my @likely = sort { ($a =~ /:/) <=> ($b =~ /:/) || $found->{$b} <=> $found->{$a} || $a cmp $b } keys %$found;
	my ($old, $new) = map { substr $edit->{$_}, length $edit->{context} } qw(old new);
	printf "# %s:%d: %s;%s\n%s-%s-%d %s - -\n", main::path_of($file), $fault->[1] + 1, $fault->[0],
		join('', map { " $_" } @likely), $fault->[0], $file =~ s{^.*/}{}r =~ tr{.}{_}r, ++$number, $file;
	print map { my ($sign, $text) = @$_; $text =~ s/^(?=.)/$sign/gmr } [' ', $edit->{context}], ['-', $old], ['+', $new];
	print "\n";
}
