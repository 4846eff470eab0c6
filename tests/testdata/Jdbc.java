import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;

/**
 * What programs do through JDBC. A request is a line of standard input, where
 * nobody else sees the password: what to do, URL, user, password, data set, with
 * tabs between. The answer is lines, the last of them "end".
 */
public class Jdbc {
  static final String ASK = "SELECT * FROM dp_l1_regress(?, ?, features => '{age}')";
  static final String RUN = "CALL dp_run('l1', ?, ?, features => '{age}')";
  static final BufferedReader in = new BufferedReader(new InputStreamReader(System.in));

  public static void main(String[] args) throws Exception {
    for (String line; (line = in.readLine()) != null; say("end")) {
      String[] f = line.split("\t");
      try (Connection c = DriverManager.getConnection(f[1], f[2], f[3])) {
        answer(c, f[0], f[4]);
      } catch (SQLException e) {
        error(e);
      }
    }
  }

  static void answer(Connection c, String what, String dataset) throws Exception {
    switch (what) {
      case "prepared": prepared(c, dataset); break;
      case "rollback": rollback(c, dataset); break;
      case "cursor": cursor(c, dataset); break;
      case "read only": readOnly(c, dataset); break;
      case "call": call(c, dataset); break;
      case "call in a transaction": callInATransaction(c, dataset); break;
      case "escape": escape(c, dataset); break;
      case "metadata": metadata(c, dataset); break;
      case "query timeout": queryTimeout(c, dataset); break;
      case "cancel": cancel(c, dataset); break;
      case "warnings": warnings(c, dataset); break;
      default: throw new IllegalArgumentException(what);
    }
  }

  static void prepared(Connection c, String dataset) throws SQLException {
    try (PreparedStatement s = prepare(c, ASK, dataset)) {
      for (int i = 0; i < 7; i++) {
        release(s);
      }
    }
    say("parameters inlined: " + one(c, "SELECT position(chr(36) || '1' IN current_query()) = 0 WHERE ?", true));
    say("kept by the server: " + one(c, "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE ?", "SELECT * FROM dp_l1_regress%"));
  }

  static void rollback(Connection c, String dataset) throws SQLException {
    c.setAutoCommit(false);
    try (PreparedStatement s = prepare(c, ASK, dataset)) {
      release(s);
      c.rollback();
      release(s);
      c.rollback();
    }
  }

  static void cursor(Connection c, String dataset) throws SQLException {
    c.setAutoCommit(false);
    try (PreparedStatement s = prepare(c, ASK, dataset)) {
      s.setFetchSize(1);
      try (ResultSet r = s.executeQuery()) {
        say("cursors: " + one(c, "SELECT count(*) FROM pg_cursors WHERE statement LIKE ?", "SELECT * FROM dp_l1_regress%"));
        release(r);
      }
    }
    c.commit();
  }

  static void readOnly(Connection c, String dataset) throws SQLException {
    c.setReadOnly(true);
    for (boolean auto : new boolean[] {true, false}) {
      c.setAutoCommit(auto);
      release(c, dataset);
      say("read only: " + one(c, "SELECT current_setting(?)", "transaction_read_only"));
    }
    c.rollback();
  }

  static void call(Connection c, String dataset) throws SQLException {
    try (CallableStatement s = c.prepareCall("CALL dp_run('l1', ?, ?, features => '{age}', job => ?)")) {
      s.setString(1, dataset);
      s.setDouble(2, 0.25);
      s.setNull(3, Types.OTHER);
      s.registerOutParameter(3, Types.OTHER);
      s.execute();
      result(c, s.getObject(3));
    }
    try (PreparedStatement s = prepare(c, RUN, dataset); ResultSet r = s.executeQuery()) {
      r.next();
      result(c, r.getObject("job"));
    }
  }

  static void callInATransaction(Connection c, String dataset) throws SQLException {
    c.setAutoCommit(false);
    try (PreparedStatement s = prepare(c, RUN, dataset)) {
      s.execute();
    } catch (SQLException e) {
      error(e);
    }
    c.rollback();
    release(c, dataset);
  }

  /** The call syntax of JDBC itself. */
  static void escape(Connection c, String dataset) throws SQLException {
    try (CallableStatement s = c.prepareCall("{call dp_run('l1', ?, ?, features => '{age}')}")) {
      s.setString(1, dataset);
      s.setDouble(2, 0.25);
      s.execute();
      release(c, dataset);
    } catch (SQLException e) {
      error(e);
    }
    try (CallableStatement s = c.prepareCall("{? = call dp_submit('l1', ?, ?, features => '{age}')}")) {
      s.registerOutParameter(1, Types.OTHER);
      s.setString(2, dataset);
      s.setDouble(3, 0.25);
      s.execute();
      result(c, s.getObject(1));
    }
  }

  /** What a tool asks for before it runs a query. */
  static void metadata(Connection c, String dataset) throws SQLException {
    try (PreparedStatement s = c.prepareStatement(ASK)) {
      ResultSetMetaData r = s.getMetaData();
      say("columns: " + r.getColumnName(1) + " " + r.getColumnTypeName(1) + " " + r.getColumnName(2) + " " + r.getColumnTypeName(2));
      ParameterMetaData p = s.getParameterMetaData();
      say("parameters: " + p.getParameterTypeName(1) + " " + p.getParameterTypeName(2));
    }
    DatabaseMetaData d = c.getMetaData();
    say("function: " + all(d.getFunctions(null, "public", "dp\\_l1\\_regress"), "FUNCTION_NAME", "REMARKS"));
    say("arguments: " + all(d.getFunctionColumns(null, "public", "dp\\_l1\\_regress", null), "COLUMN_NAME"));
    say("procedure: " + all(d.getProcedures(null, "public", "dp\\_run"), "PROCEDURE_NAME"));
    say("view: " + all(d.getTables(null, "dp", "coefficients", null), "TABLE_NAME", "TABLE_TYPE", "REMARKS"));
    say("columns of the view: " + all(d.getColumns(null, "dp", "coefficients", null), "COLUMN_NAME", "TYPE_NAME"));
    say("jobs: " + one(c, "SELECT count(*) FROM dp.jobs WHERE dataset = ?", dataset));
    release(c, dataset);
  }

  static void queryTimeout(Connection c, String dataset) throws SQLException, IOException {
    try (PreparedStatement s = prepare(c, ASK, dataset)) {
      s.setQueryTimeout(1);
      try {
        release(s);
      } catch (SQLException e) {
        error(e);
      }
      in.readLine();
      s.setQueryTimeout(0);
      release(s);
      release(s);
    }
  }

  static void cancel(Connection c, String dataset) throws Exception {
    try (PreparedStatement s = prepare(c, ASK, dataset)) {
      Thread button = new Thread(() -> {
        try {
          in.readLine();
          s.cancel();
        } catch (IOException | SQLException e) {
          say("error: " + e);
        }
      });
      button.start();
      try {
        release(s);
      } catch (SQLException e) {
        error(e);
      }
      button.join();
      release(s);
      release(s);
    }
  }

  /** Tells each warning when it comes, and finds them in the end. */
  static void warnings(Connection c, String dataset) throws Exception {
    try (PreparedStatement s = prepare(c, ASK, dataset)) {
      Thread watch = new Thread(() -> {
        try {
          for (SQLWarning last = null;; Thread.sleep(20)) {
            for (SQLWarning w; (w = last == null ? s.getWarnings() : last.getNextWarning()) != null; last = w) {
              say("told: " + w.getMessage());
            }
          }
        } catch (SQLException e) {
          say("error: " + e);
        } catch (InterruptedException e) {
          return; // the call has ended
        }
      });
      watch.start();
      try {
        release(s);
      } finally {
        watch.interrupt();
        watch.join();
      }
      SQLWarning last = s.getWarnings();
      while (last.getNextWarning() != null) {
        last = last.getNextWarning();
      }
      say("last warning: " + last.getMessage());
    }
  }

  static PreparedStatement prepare(Connection c, String sql, String dataset) throws SQLException {
    PreparedStatement s = c.prepareStatement(sql);
    s.setString(1, dataset);
    s.setDouble(2, 0.25);
    return s;
  }

  static void release(Connection c, String dataset) throws SQLException {
    try (PreparedStatement s = prepare(c, ASK, dataset)) {
      release(s);
    }
  }

  static void release(PreparedStatement s) throws SQLException {
    try (ResultSet r = s.executeQuery()) {
      release(r);
    }
  }

  static void release(ResultSet r) throws SQLException {
    StringBuilder line = new StringBuilder("release");
    while (r.next()) {
      line.append("\t").append(r.getString("term")).append("\t").append(r.getDouble("coef"));
    }
    say(line.toString());
  }

  /** The release of a job, which may still run. */
  static void result(Connection c, Object job) throws SQLException {
    while (one(c, "SELECT status IN ('queued', 'running') FROM dp_status(?)", job).equals("t")) {
      one(c, "SELECT pg_sleep(?)", 0.01);
    }
    try (PreparedStatement s = c.prepareStatement("SELECT * FROM dp_result(?)")) {
      s.setObject(1, job);
      release(s);
    }
  }

  static String one(Connection c, String sql, Object parameter) throws SQLException {
    try (PreparedStatement s = c.prepareStatement(sql)) {
      s.setObject(1, parameter);
      try (ResultSet r = s.executeQuery()) {
        r.next();
        return r.getString(1);
      }
    }
  }

  static String all(ResultSet rows, String... columns) throws SQLException {
    List<String> values = new ArrayList<>();
    try (ResultSet r = rows) {
      while (r.next()) {
        for (String column : columns) {
          values.add(r.getString(column));
        }
      }
    }
    return String.join(" ", values);
  }

  static void error(SQLException e) {
    say("error " + e.getSQLState() + ": " + e.getMessage());
  }

  static synchronized void say(String line) {
    System.out.println(line.replace('\n', ' '));
  }
}
