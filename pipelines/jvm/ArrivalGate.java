package kappa;

import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.TopicPartition;

/** Opens when records have come and no more of them come: what another job writes of a window are many records, one batch of this one. */
public class ArrivalGate extends Gate {
  private static final long SETTLED_MS = 150L;
  private static final long ENDED_MS = 30L; // the same where a batch has just ended, which may be the one that wrote them
  private static final long SCATTERED_MS = 1000L; // they keep coming: begin with those that are there

  private long read;
  private long seen;
  private long first;
  private long ended;

  public ArrivalGate(Map client, List names) {
    super(client, names);
  }

  @Override
  protected long closedFor(long now) throws InterruptedException, ExecutionException, TimeoutException {
    long end = 0L;
    Map ends = ends();
    for (Iterator parts = ends.keySet().iterator(); parts.hasNext();) {
      end += offset(ends, (TopicPartition) parts.next());
    }
    boolean settled = end == seen;
    seen = end;
    boolean justEnded = ended() != ended;
    ended = ended();
    if (end == read) {
      first = now;
      return PAUSE_MS;
    }
    return settled || now - first >= SCATTERED_MS ? 0L : justEnded ? ENDED_MS : SETTLED_MS;
  }

  @Override
  protected void begins() {
    read = seen;
  }
}
