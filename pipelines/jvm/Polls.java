package kappa;

import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.TaskContext;

/**
 * Which poll of a consumer of Kafka a thread is in (ConsumerInterceptors ends them, ByteArrayDeserializer asks), and how much the tasks of each
 * stage have done that still run: polls, and rows that they have made, which ScoreText and SeriesRows count.
 */
public final class Polls {
  static final int MOST_STAGES = 1000; // the latest, by their numbers
  private static final int OFTEN = 10000; // rows
  private static final ConcurrentSkipListMap OF_STAGE = new ConcurrentSkipListMap();
  private static final ThreadLocal CURRENT = new ThreadLocal() {
    @Override
    protected Object initialValue() {
      return new long[1];
    }
  };

  private Polls() {}

  /** How many bytes the poll holds by now, of keys, values and headers: another array for each poll. */
  public static long[] held() {
    return (long[]) CURRENT.get();
  }

  /** The thread's poll has its records. */
  public static void end() {
    CURRENT.set(new long[1]);
    work();
  }

  /** The thread's task has made so many rows: with each 10,000 of them it has got further. */
  static void rows(int made) {
    if (made % OFTEN == 0) {
      work();
    }
  }

  private static void work() {
    TaskContext task = TaskContext.get();
    if (task != null) {
      Integer stage = Integer.valueOf(task.stageId());
      OF_STAGE.putIfAbsent(stage, new AtomicLong());
      AtomicLong times = (AtomicLong) OF_STAGE.get(stage);
      if (times != null) {
        times.incrementAndGet();
      }
      if (OF_STAGE.size() > MOST_STAGES) {
        OF_STAGE.pollFirstEntry();
      }
    }
  }

  /** How often tasks of a stage have got further in this JVM; those that still run are counted too. */
  public static long ofStage(int stage) {
    AtomicLong times = (AtomicLong) OF_STAGE.get(Integer.valueOf(stage));
    return times == null ? 0 : times.get();
  }
}
