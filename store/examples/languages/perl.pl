# SPDX-License-Identifier: BSD-2-Clause
use strict;
use warnings;
use DBI;

my $db = DBI->connect('dbi:Pg:', undef, undef, { RaiseError => 1 });
my $put = "select hwt_put('job', ?, delay => ?, key => ?, if_exists => ?)";
$db->selectrow_array($put, undef, 'mail alice', '30 minutes', 'order 17', 'error');
my $id = $db->selectrow_array($put, undef, 'mail bob', '2 hours', 'order 17', 'replace');
$db->selectrow_array($put, undef, 'mail carol', '1 day', 'order 18', 'error');
print "$id ", scalar $db->selectrow_array("select hwt_cancel_key('job', ?)", undef, 'order 18'), "\n";
