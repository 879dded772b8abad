-- SPDX-License-Identifier: BSD-2-Clause
-- psql -qAt -f psql.sql
\set ON_ERROR_STOP 1

select hwt_put('job', 'mail alice', delay => '30 minutes', key => 'order 17') \g /dev/null
select hwt_put('job', 'mail bob', delay => '2 hours', key => 'order 17', if_exists => 'replace') as id \gset
select hwt_put('job', 'mail carol', delay => '1 day', key => 'order 18') \g /dev/null
select :id || ' ' || hwt_cancel_key('job', 'order 18');
