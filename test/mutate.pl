#!/usr/bin/perl
# SPDX-License-Identifier: BSD-2-Clause
# mutate.pl TABLES check | list [WORD...] | sample FILE... | apply NAME
#
# Reads tables of planted faults, whose form test/mutants.sh describes.  TABLES is a pattern of the shell; "faults" means the tables beside the
# tests.  Runs in the root of a tree.  `check` demands that each entry fits the
# sources; `list` prints "NAME FILE PROGRAM TEST" of those whose name or file contains a word, `sample` of those
# that a change of these files may blind or break; `apply` plants one.
#
# Perl, because a line of the table has to be found whatever its spaces, line breaks and comments are now; it is on every Debian.
use strict;
use warnings;
use Digest::MD5 'md5_hex';
use File::Find;

our @files; # by their paths below src/; others, such as headers for users and the tables of the simulation, by their whole paths
find({ no_chdir => 1, wanted => sub { push @files, s{^src/}{}r if /\.(?:[ch]|hpp|sql)$/ } },
	grep { -d } 'src', 'include', 'store/src', 'store/sql', 'store/include', 'store/test/sim'); # a copy may lack the store
@files = sort @files;

# The one that an entry means: a path below src/, or the end of one that is the only such.
sub path_of {
	my ($file) = @_;
	my @found = grep { $_ eq $file } @files;
	@found = grep { m{/\Q$file\E$} } @files unless @found;
	return unless @found == 1;
	return $found[0] =~ m{^(?:include|store)/} ? $found[0] : "src/$found[0]";
}

# What the names of the programs of a table begin with: those of a table beside a test.
sub beside {
	return $_[0] =~ m{(\w+)\.faults$} ? $1 : '';
}

# An edit: where, the lines before (context and "-"), the lines after (context and "+").
sub entries {
	return map { entries_of($_) } glob $_[0] eq 'faults' ? '{,store/}test/{,sim/}*.faults' : $_[0];
}

sub entries_of {
	my ($table) = @_;
	my (@entries, $entry, $edit);
	open my $in, '<', $table or die "FAIL mutants: $table: $!\n";
	while (<$in>) {
		if (/^(#|$)/) {
			undef $entry;
		} elsif (/^@(?: (\S+))?$/ && $entry) {
			push @{ $entry->{edits} }, $edit = { file => $1 // $edit->{file}, old => '', new => '' };
		} elsif (/^([-+ ])(.*\n)/ && $entry) {
			$edit->{old} .= $2 if $1 ne '+';
			$edit->{new} .= $2 if $1 ne '-';
		} elsif (/^([\w-]+) +(\S+\.(?:[ch]|hpp|sql)) +([\w:]+|-) +(\w+|-)$/ && !$entry) {
			$edit = { file => $2, old => '', new => '' };
			push @entries, $entry = { name => $1, file => $2, program => $3, test => $4, table => $table, edits => [$edit] };
			die "FAIL mutants: $table:$.: $entry->{program} is not tested here\n"
				if index($entry->{program} =~ s/^\w+://r, beside($table)) != 0;
		} else {
			die "FAIL mutants: $table:$.: neither an entry nor a line of one: $_";
		}
	}
	return @entries;
}

# The same text with spaces for comments, so that places stay the same.
sub blank_comments {
	return $_[0] =~ s{(/\*.*?\*/)}{ $1 =~ s/[^\n]/ /gr }gser;
}

# Whole lines with these tokens, however they are spaced and broken.
sub pattern {
	my $tokens = join '\s*', map { /\w/ ? "\\b$_\\b" : quotemeta } blank_comments($_[0]) =~ /\w+|[^\w\s]/g;
	return qr/^[ \t]*$tokens[ \t]*$/m;
}

# Where the old text of an edit stands in a source: begin and length of each place.
sub places {
	my ($source, $old) = @_;
	my ($blank, $pattern, @places) = (blank_comments($source), pattern($old));
	push @places, [$-[0], $+[0] - $-[0]] while $blank =~ /$pattern/g;
	return @places;
}

sub slurp {
	open my $in, '<', $_[0] or die "FAIL mutants: $_[0]: $!\n";
	local $/;
	return scalar <$in>;
}

# Plants all edits of an entry in %$sources (by path); returns what is wrong, or nothing.
sub plant {
	my ($entry, $sources) = @_;
	for my $edit (@{ $entry->{edits} }) {
		my $path = path_of($edit->{file}) or return "which file in src is $edit->{file}?";
		my $source = $sources->{$path} //= slurp($path);
		my @places = places($source, $edit->{old});
		return sprintf "its line stands %d times in %s, not once:\n%s", scalar @places, $path, $edit->{old} if @places != 1;
		my $place = substr $source, $places[0][0], $places[0][1];
		my $new = $edit->{new} =~ s/\n\z//r;
		$new .= "\n" while $new =~ tr/\n// < $place =~ tr/\n//; # what is below keeps its line, which assert() compiles in
		substr $sources->{$path}, $places[0][0], $places[0][1], $new;
	}
	return;
}

# All edits of an entry in the sources on disk.
sub apply {
	my ($entry) = @_;
	my $problem = plant($entry, \my %changed);
	die "$problem\n" if $problem;
	for my $path (keys %changed) {
		open my $out, '>', $path or die "$path: $!\n";
		print $out $changed{$path};
		close $out or die "$path: $!\n";
	}
}

# Whether the tests beside the table, in main.c those of a simulation, have the one that the entry names.
sub has_test {
	my ($entry) = @_;
	my ($tests) = grep { -e } map { $entry->{table} =~ s/\w+\.faults$/$_/r } beside($entry->{table}) . '.c', beside($entry->{table}) . '.cpp', 'main.c';
	my $text = slurp($tests);
	my ($pasted) = $text =~ /\bTEST\((\w+)##/; # with a name of a table
	return $entry->{test} eq '-' || $text =~ /^\w+\(\w*$entry->{test}/m || defined $pasted && ($entry->{test} =~ /^$pasted/ || $pasted =~ /^$entry->{test}/);
}

# Demands that each entry fits and names a test, and that each source that is compiled has one.
sub check {
	my ($table, @entries) = @_;
	my (%name, %file, @problems);
	for my $entry (@entries) {
		my $problem = $name{ $entry->{name} }++ ? 'its name stands twice in the table' : plant($entry, {});
		push @problems, "FAIL mutant $entry->{name} does not fit: $problem" if $problem;
		push @problems, "FAIL mutant $entry->{name}: $entry->{program} has no test $entry->{test}" if $table eq 'faults' && !has_test($entry);
		$file{ path_of($_->{file}) // '' } = 1 for @{ $entry->{edits} };
	}
	# The store has tests of its own; a file without a function has nothing to plant in.
	my @without = grep { /\.c$/ && !m{^store/} && !$file{"src/$_"} && slurp("src/$_") =~ /^\{/m } @files;
	push @problems, map { "FAIL mutants: $table plants nothing in $_" } @without if $table eq 'faults';
	print map { s/\n*\z/\n/r } @problems;
	return @problems ? 1 : 0;
}

# The entries of these files, sources or tests: first one of each source, then a second one.  Among those of one source a digest decides, so that
# neighbours in a table do not stand together.
sub sample {
	my ($changed, @entries) = @_;
	my ($any, %rank, @sample) = join "\n", @$changed;
	for my $entry (sort { md5_hex($a->{name}) cmp md5_hex($b->{name}) } @entries) {
		my $program = $entry->{program} =~ s/.*://r;
		my $tests = $program =~ /^(store_)?sim$/ ? ($1 ? 'store/' : '') . 'test/sim/' : "(?:store/)?test/$program\\.";
		next unless $any =~ /^$tests/m || grep { $any =~ /^\Q$_\E$/m } map { path_of($_->{file}) // () } @{ $entry->{edits} };
		push @sample, [$rank{ $entry->{file} }++, $entry];
	}
	return map { $_->[1] } sort { $a->[0] <=> $b->[0] } @sample;
}

sub print_entries {
	print "$_->{name} $_->{file} $_->{program} $_->{test}\n" for @_;
}

sub main {
	my ($table, $command, @words) = @_;
	my @entries = entries($table);
	if ($command eq 'check') {
		return check($table, @entries);
	} elsif ($command eq 'apply') {
		apply(grep { $_->{name} eq $words[0] } @entries);
	} elsif ($command eq 'list') {
		@entries = grep { my $entry = $_; grep { index("$entry->{name} $entry->{file}", $_) >= 0 } @words } @entries if @words;
		print_entries(@entries);
	} elsif ($command eq 'sample') {
		print_entries(sample(\@words, @entries));
	} else {
		die "mutate.pl: no such command: $command\n";
	}
	return 0;
}

exit main(@ARGV) unless caller;
1;
