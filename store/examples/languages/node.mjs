// SPDX-License-Identifier: BSD-2-Clause
import pg from 'pg';

const db = new pg.Client();
await db.connect();
const put = "select hwt_put('job', $1, delay => $2, key => $3, if_exists => $4) as id";
await db.query(put, ['mail alice', '30 minutes', 'order 17', 'error']);
const { id } = (await db.query(put, ['mail bob', '2 hours', 'order 17', 'replace'])).rows[0];
await db.query(put, ['mail carol', '1 day', 'order 18', 'error']);
console.log(id, (await db.query("select hwt_cancel_key('job', $1) as what", ['order 18'])).rows[0].what);
await db.end();
