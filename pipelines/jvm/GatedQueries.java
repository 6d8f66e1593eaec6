package kappa;

import java.lang.reflect.Field;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.classic.StreamingQueryManager;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.util.Clock;

/**
 * Spark's manager of streaming queries, which gives a query the clock that was set for it.
 *
 * <p>Spark asks a query's clock when its next batch begins, and has a parameter for it where queries are created, but none where
 * they are started. Its default, a method of this class, is what a query is started with.
 */
public class GatedQueries extends StreamingQueryManager {
  private final ThreadLocal clock = new ThreadLocal();

  private GatedQueries(SparkSession session, SQLConf conf) {
    super(session, conf);
  }

  /** The manager of a session, put in the place of Spark's at the first call: listeners are added after it. */
  public static synchronized GatedQueries of(SparkSession session) throws Exception {
    SessionState state = session.sessionState();
    if (!(state.streamingQueryManager() instanceof GatedQueries)) {
      Field manager = SessionState.class.getDeclaredField("streamingQueryManager");
      manager.setAccessible(true);
      manager.set(state, new GatedQueries(session, state.conf()));
    }
    return (GatedQueries) state.streamingQueryManager();
  }

  /** The clock of the queries that this thread starts; null for the system's. */
  public void setClock(Clock next) {
    clock.set(next);
  }

  @Override
  public Clock startQuery$default$11() {
    Clock own = (Clock) clock.get();
    return own == null ? super.startQuery$default$11() : own;
  }
}
