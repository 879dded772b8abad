// SPDX-License-Identifier: BSD-2-Clause
// java -cp /usr/share/java/postgresql.jar Postgres.java jdbc:postgresql://localhost/app?user=web
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;

class Postgres {
	static final String PUT = "select hwt_put('job', ?, delay => ?::interval, key => ?, if_exists => ?)";

	/* The one value of a query. */
	static String ask(Connection db, String query, String... args) throws SQLException {
		try (var statement = db.prepareStatement(query)) {
			for (int i = 0; i < args.length; i++)
				statement.setString(i + 1, args[i]);
			ResultSet rows = statement.executeQuery();
			rows.next();
			return rows.getString(1);
		}
	}

	public static void main(String[] args) throws SQLException {
		try (Connection db = DriverManager.getConnection(args[0])) {
			ask(db, PUT, "mail alice", "30 minutes", "order 17", "error");
			String id = ask(db, PUT, "mail bob", "2 hours", "order 17", "replace");
			ask(db, PUT, "mail carol", "1 day", "order 18", "error");
			System.out.println(id + " " + ask(db, "select hwt_cancel_key('job', ?)", "order 18"));
		}
	}
}
