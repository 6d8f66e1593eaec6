package kappa;

import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.TaskContext;

/** Which poll of a consumer of Kafka a thread is in, and how many polls each stage has had: ConsumerInterceptors ends them, ByteArrayDeserializer asks. */
public final class Polls {
  static final int MOST_STAGES = 1000; // the latest, by their numbers
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
    TaskContext task = TaskContext.get();
    if (task != null) {
      Integer stage = Integer.valueOf(task.stageId());
      OF_STAGE.putIfAbsent(stage, new AtomicLong());
      AtomicLong polls = (AtomicLong) OF_STAGE.get(stage);
      if (polls != null) {
        polls.incrementAndGet();
      }
      if (OF_STAGE.size() > MOST_STAGES) {
        OF_STAGE.pollFirstEntry();
      }
    }
  }

  /** How many polls tasks of a stage have had in this JVM; those that still run are counted too. */
  public static long ofStage(int stage) {
    AtomicLong polls = (AtomicLong) OF_STAGE.get(Integer.valueOf(stage));
    return polls == null ? 0 : polls.get();
  }
}
