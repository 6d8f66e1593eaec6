package kappa;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.BiConsumer;
import org.apache.spark.TaskContext;

/**
 * The environment of a Python function, in which each partition of it has a name of its own.
 *
 * <p>Spark keeps its Python workers by their environment and gives a task the one that has been idle for longest. What a
 * worker holds of a partition is of use only if the partition's next task gets the same one: with names of their own it does.
 */
public class OwnWorkers extends HashMap {
  public static final String NAME = "KAPPA_WORKER";
  private final String job;

  public OwnWorkers(Map environment, String job) {
    super(environment);
    this.job = job;
  }

  /** With the name of the partition whose task asks. */
  private Map named() {
    Map all = new HashMap();
    for (Object entry : super.entrySet()) {
      all.put(((Map.Entry) entry).getKey(), ((Map.Entry) entry).getValue());
    }
    all.put(NAME, job + "-" + TaskContext.getPartitionId());
    return all;
  }

  @Override
  public Set entrySet() {
    return named().entrySet();
  }

  @Override
  public void forEach(BiConsumer take) {
    named().forEach(take);
  }
}
