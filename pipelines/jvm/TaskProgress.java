package kappa;

import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.TaskContext;

/** How often the tasks of each stage have got further, those that still run included: by a poll of Kafka, or by 10,000 rows more (ScoreText, SeriesRows). */
public final class TaskProgress {
  static final int MOST_STAGES = 1000; // the latest, by their numbers
  private static final int OFTEN = 10000; // rows
  private static final ConcurrentSkipListMap OF_STAGE = new ConcurrentSkipListMap();

  private TaskProgress() {}

  /** The thread's task has made so many rows: with each 10,000 of them it has got further. */
  static void rows(int made) {
    if (made % OFTEN == 0) {
      advance();
    }
  }

  /** The thread's task has got further. */
  public static void advance() {
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
