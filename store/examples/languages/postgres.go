// SPDX-License-Identifier: BSD-2-Clause
package main

import (
	"database/sql"
	"fmt"
	"log"

	_ "github.com/lib/pq"
)

const put = "select hwt_put('job', $1, delay => $2, key => $3, if_exists => $4)"

// The one value of a query.
func ask(db *sql.DB, query string, args ...any) (value string) {
	if err := db.QueryRow(query, args...).Scan(&value); err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	db, err := sql.Open("postgres", "sslmode=disable")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ask(db, put, "mail alice", "30 minutes", "order 17", "error")
	id := ask(db, put, "mail bob", "2 hours", "order 17", "replace")
	ask(db, put, "mail carol", "1 day", "order 18", "error")
	fmt.Println(id, ask(db, "select hwt_cancel_key('job', $1)", "order 18"))
}
