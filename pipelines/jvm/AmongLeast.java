package kappa;

import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.api.java.UDF4;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * A window (end, ms), an owner of names, the hash of a name, how many names are kept -> whether that name may be kept: false only
 * where so many names of the owner with smaller hashes are in the same window.
 *
 * <p>What was seen is remembered for the tasks of one run of a query in this JVM, and forgotten when it takes too much memory; to forget
 * it lets more names pass and loses none. A run's batches are never read again with other records: so what it has seen of a window is in
 * that window. The tasks of a query that is no stream remember each for itself.
 */
public class AmongLeast implements UDF4 {
  private static final long ENOUGH = 32L << 20; // bytes of all that is remembered
  private static final Map ALL = new LinkedHashMap(16, 0.75f, true); // name -> Least, the one used longest ago first
  private static long bytes = 0;

  private transient volatile Scope scope;

  /** As Spark's function, which it calls once for each row: the answer depends on what was asked before. */
  public UserDefinedFunction function() {
    return functions.udf(this, DataTypes.BooleanType).asNondeterministic();
  }

  @Override
  public Object call(Object window, Object owner, Object hash, Object most) {
    TaskContext task = TaskContext.get();
    if (task == null) {
      return Boolean.TRUE; // outside of tasks Spark may ask about rows of any query
    }
    Scope mine = scope;
    if (mine == null || mine.task != task) {
      mine = new Scope(task);
      scope = mine;
    }
    String name = mine.name + window + "/" + owner;
    return Boolean.valueOf(passes(name, ((Long) hash).longValue(), ((Integer) most).intValue()));
  }

  private static boolean passes(String name, long hash, int most) {
    synchronized (ALL) {
      Least found = (Least) ALL.get(name);
      if (found == null) {
        found = new Least(name);
        ALL.put(name, found);
        bytes += found.bytes();
      }
      bytes -= found.bytes();
      boolean passes = found.add(hash, most);
      bytes += found.bytes();
      Iterator oldest = ALL.values().iterator();
      while (bytes > ENOUGH && oldest.hasNext()) {
        bytes -= ((Least) oldest.next()).bytes();
        oldest.remove();
      }
      return passes;
    }
  }

  /** Whose tasks share what they have seen. */
  static class Scope {
    final TaskContext task;
    final String name;

    Scope(TaskContext task) {
      this.task = task;
      boolean streams = task.getLocalProperty("sql.streaming.queryId") != null;
      String run = streams ? task.getLocalProperty("spark.jobGroup.id") : null;
      name = run == null ? task.taskAttemptId() + "/" : run + "/";
    }
  }

  /** The least hashes of the names of an owner in a window, and some that came since they were last sorted. */
  static class Least {
    private static final int FIRST = 8, OVERHEAD = 200;

    private final String name;
    private long[] hashes = new long[FIRST];
    private int size = 0;
    private long highest = Long.MAX_VALUE; // of those that may be kept

    Least(String name) {
      this.name = name;
    }

    long bytes() {
      return 8L * hashes.length + 2L * name.length() + OVERHEAD;
    }

    boolean add(long hash, int most) {
      if (hash > highest) {
        return false;
      }
      if (size == hashes.length) {
        makeRoom(most);
      }
      hashes[size++] = hash;
      return true;
    }

    /** Keep each hash once and no more than may be kept; a longer array where half of it would be in use. */
    private void makeRoom(int most) {
      Arrays.sort(hashes);
      int distinct = 1;
      for (int i = 1; i < size; i++) {
        if (hashes[i] != hashes[i - 1]) {
          hashes[distinct++] = hashes[i];
        }
      }
      if (distinct >= most) {
        distinct = most;
        highest = hashes[most - 1];
      }
      size = distinct;
      if (size > hashes.length / 2) {
        hashes = Arrays.copyOf(hashes, 2 * hashes.length);
      }
    }
  }
}
