#!/usr/bin/perl
# SPDX-License-Identifier: BSD-2-Clause
# amalgamate.pl FOLDER CC... : writes FOLDER/hwt.c and FOLDER/hwt.h, the whole library in one file and its header.
#
# CC is the compiler with its flags.  It says which of Concurrency Kit's headers this machine's build reads; they go in
# with their notices.
#
# The headers come first, each once, then the sources.  Names that two sources use for functions or variables of their
# own get the source's name in front; macros of a source end with it.  Everything but the API is hidden, as in the library.
use strict;
use warnings;

my ($folder, @cc) = @ARGV;
my @sources = sort glob 'src/{timer,worker,wheel,lane,base}/*.c';
my (%done, %ck);

sub slurp {
	open my $in, '<', $_[0] or die "amalgamate: $_[0]: $!\n";
	local $/;
	return scalar <$in>;
}

# Concurrency Kit's headers, as the compiler finds them: the end of the path is what an #include names.
# Under ThreadSanitizer the library reads others.
for my $build ('', '-D__SANITIZE_THREAD__') {
	open my $depends, '-|', @cc, grep({ $_ } $build), qw(-Iinclude -Isrc -M src/lane/queue.c)
		or die "amalgamate: $cc[0]: $!\n";
	for (map { split } <$depends>) {
		$ck{$1} = $_ if m{((?:gcc/\w+/|gcc/|spinlock/)?ck_\w+\.h|spinlock/\w+\.h)$};
	}
	close $depends or die "amalgamate: $cc[0] -M failed\n";
}

# The system's headers keep their visibility.
sub system_include {
	return "#pragma GCC visibility push(default)\n$_[0]\n#pragma GCC visibility pop\n";
}

# So do those of Concurrency Kit, which are written for fewer warnings.
sub unwarned {
	my $ignored = join '', map { "#pragma GCC diagnostic ignored \"-W$_\"\n" } qw(conversion sign-conversion shadow);
	return "#pragma GCC diagnostic push\n$ignored$_[0]\n#pragma GCC diagnostic pop\n";
}

# What stands for an #include: a header of ours or of Concurrency Kit in full.  Again, too, if it stood below a condition
# before: its own guard keeps it from being read twice.
sub included {
	my ($line, $name, $from, $condition) = @_;
	$name = "$1/$name" if $line =~ /"/ && $from =~ m{^(.*)/} && $ck{"$1/$name"}; # beside the one that includes it
	my $path = $ck{$name} // "src/$name";
	if (!-e $path) {
		return '' if $name eq 'hwt.h';
		return "#error \"$name is for other machines than hwt.c was made for\"\n" if $name =~ m{ck_|^spinlock/|^gcc/};
		return system_include($line);
	}
	return "\n" if $done{$name};
	$done{$name} = !$condition;
	my $text = "/* $name */\n\n" . expanded(slurp($path), $ck{$name} ? $name : '', $condition);
	return $ck{$name} ? unwarned($text) : $text;
}

# With its includes.  The guard of a header is no condition.
sub expanded {
	my ($text, $from, $condition) = @_;
	my ($depth, $out) = ($condition ? 1 : 0, '');
	my ($guard) = $text =~ /^#\s*ifndef\s+(\w+)\s*\n#\s*define\s+\1\b/m;
	for my $line (split /^/, $text) {
		if ($line =~ /^(\s*#\s*include\s*["<]([^">]+)[">])/) {
			$out .= included("$1", "$2", $from, $depth > 0);
			next;
		}
		$depth++ if $line =~ /^\s*#\s*if/ && !(defined $guard && $line =~ /^#\s*ifndef\s+$guard\b/);
		$depth-- if $line =~ /^\s*#\s*endif/;
		$out .= $line;
	}
	return $out;
}

# The names that only one source knows, and the users of each.
my (%own, %users);
for my $source (@sources) {
	my %names = map { $_ => 1 } slurp($source) =~ s/__attribute__\(\(.*?\)\)//gr =~ /^static\b[^;=({]*?\b(\w+)\s*(?:\(|\[|=|;)/gm;
	$own{$source} = [sort keys %names];
	$users{$_}{$source} = 1 for keys %names;
}

my $header = slurp('include/hwt.h');
my ($version) = map { join '.', $header =~ /^#define HWT_VERSION_\w+ (\d+)$/gm } 1;
my $out = "/* SPDX-License-Identifier: BSD-2-Clause */\n/*\n * libhwt $version in one file: cc -c hwt.c -pthread\n *\n"
	. " * Made by `make amalgamation`; the sources are where it was made from.  Parts of Concurrency Kit are in it, with\n"
	. " * their own notices.\n *\n" . join('', map { $_ eq '' ? " *\n" : " * $_\n" } split /\n/, slurp('LICENSE')) . " */\n"
	. "#if !defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L\n"
	. "#error \"hwt.c is C11: compile it as C, with -std=c11 or a later one\"\n#else\n"
	. join('', map { "#pragma GCC diagnostic ignored \"-W$_\"\n" } qw(pragmas unused-function))
	. "#ifndef __clang__ /* what gcc makes of all in one */\n"
	. join('', map { "#pragma GCC diagnostic ignored \"-W$_\"\n" } qw(clobbered maybe-uninitialized stringop-overflow
		stringop-overread)) . "#endif\n#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n#include \"hwt.h\"\n\n#pragma GCC visibility push(hidden)\n\n";
for my $source (@sources) { # the headers that it wants
	for my $line (grep { /^#\s*include/ } split /\n/, slurp($source)) {
		$line =~ /["<]([^">]+)[">]/ or die;
		$out .= included($line, "$1", '', 0) if -e "src/$1" || $ck{$1};
	}
}
for my $source (@sources) {
	my ($prefix) = map { s{/}{_}gr } $source =~ m{^src/(.*)\.c$};
	my @renamed = grep { keys %{ $users{$_} } > 1 } @{ $own{$source} };
	my $text = slurp($source) =~ s{^#\s*define _(?:GNU|DEFAULT)_SOURCE\b.*\n}{}gmr;
	$text =~ s{^(\s*#\s*include\s*["<]([^">]+)[">]).*\n}{-e "src/$2" || $ck{$2} || $2 eq 'hwt.h' ? '' : system_include($1)}gme;
	my %macros = map { $_ => 1 } $text =~ /^#\s*define\s+(\w+)/gm;
	$out .= "/* $source */\n\n" . join('', map { "#define $_ ${prefix}_$_\n" } @renamed) . $text
		. join('', map { "#undef $_\n" } @renamed, sort keys %macros) . "\n";
}
$out .= "#pragma GCC visibility pop\n#endif\n";

for (['hwt.c', $out], ['hwt.h', $header]) {
	open my $file, '>', "$folder/$_->[0]" or die "amalgamate: $folder/$_->[0]: $!\n";
	print $file $_->[1] and close $file or die "amalgamate: $folder/$_->[0]: $!\n";
}
