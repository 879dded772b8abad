# SPDX-License-Identifier: BSD-2-Clause
require "pg"

db = PG.connect
put = "select hwt_put('job', $1, delay => $2, key => $3, if_exists => $4)"
db.exec_params(put, ["mail alice", "30 minutes", "order 17", "error"])
id = db.exec_params(put, ["mail bob", "2 hours", "order 17", "replace"]).getvalue(0, 0)
db.exec_params(put, ["mail carol", "1 day", "order 18", "error"])
puts "#{id} #{db.exec_params("select hwt_cancel_key('job', $1)", ["order 18"]).getvalue(0, 0)}"
