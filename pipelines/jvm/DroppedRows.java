package kappa;

import scala.Option;
import scala.collection.Map;
import scala.collection.Seq;

/**
 * How many rows the stateful operators of a plan have dropped because the watermark had passed them.
 *
 * <p>Plans and metrics are reached by the names of their methods: the compiler of these classes would need most of Spark to see
 * their types.
 */
public class DroppedRows {
  private static final String METRIC = "numRowsDroppedByWatermark";

  private DroppedRows() {}

  /** The sum over a plan that has been executed. */
  public static long of(Object plan) throws Exception {
    Option metric = ((Map) call(plan, "metrics")).get(METRIC);
    long rows = metric.isDefined() ? ((Number) call(metric.get(), "value")).longValue() : 0L;
    Seq children = (Seq) call(plan, "children");
    for (int i = 0; i < children.length(); i++) {
      rows += of(children.apply(i));
    }
    return rows;
  }

  private static Object call(Object on, String method) throws Exception {
    return on.getClass().getMethod(method, new Class[0]).invoke(on, new Object[0]);
  }
}
