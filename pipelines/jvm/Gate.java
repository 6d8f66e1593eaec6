package kappa;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.spark.util.Clock;

/**
 * The clock of a streaming query, by which a batch begins when there is something for it to do, no later than `MOST_MS` after
 * the last one.
 *
 * <p>Between two batches Spark waits for a time by the query's clock. This one lets it wait until the gate opens. A gate that opens
 * at a wrong time costs a batch or delays one; which records a batch reads is Spark's affair, and results do not depend on it.
 */
public abstract class Gate implements Clock {
  public static final long MOST_MS = 15000L;
  protected static final long PAUSE_MS = 500L; // between two looks at the log
  private static final long ANSWER_MS = 5000L;
  // Told when a batch ends: its results may be what the gate of another query waits for.
  private static final Object ENDED = new Object();
  private static volatile long ended;

  private final Map client;
  private final List names;
  private final Map times = new HashMap(); // TopicPartition to the latest time of its records, epoch ms
  private Admin admin;
  private List parts;
  private long opened = System.currentTimeMillis();
  private long took;
  private volatile long behind;
  private volatile long looks;
  private volatile QueryProgress query;

  /**
   * `client` are options of Kafka's clients, `names` what the query reads: `TOPIC/PARTITION`, or `TOPIC` for all partitions.
   */
  protected Gate(Map client, List names) {
    this.client = new HashMap(client);
    this.names = new ArrayList(names);
  }

  /** 0 to begin a batch, else for how many milliseconds there is nothing to look for. */
  protected abstract long closedFor(long now) throws InterruptedException, ExecutionException, TimeoutException;

  /** A batch begins now. */
  protected void begins() {}

  /** Whether the next batch begins as soon as the last one has ended. */
  protected boolean follows() {
    return false;
  }

  /** This is the clock of `next`. */
  public void belongsTo(QueryProgress next) {
    query = next;
  }

  /** The query whose clock this is; null before it has started. */
  protected QueryProgress query() {
    return query;
  }

  /** How many records the last batch has left unread: known a moment after it has ended. */
  public void behind(long records) {
    behind = records;
    if (records > 0) {
      tell();
    }
  }

  /** How often a batch of any query of this process has ended. It grows. */
  protected static long ended() {
    return ended;
  }

  /** How long the last batch took, ms. */
  protected long took() {
    return took;
  }

  /** How often the gate has looked at the log. It grows while the query waits and Kafka answers. */
  public long looks() {
    return looks;
  }

  @Override
  public long getTimeMillis() {
    return System.currentTimeMillis();
  }

  @Override
  public long nanoTime() {
    return System.nanoTime();
  }

  /** Wait until a batch may begin: not before a time, except where it follows the last one. */
  @Override
  public long waitTillTime(long time) {
    took = System.currentTimeMillis() - opened;
    tell();
    try {
      if (!follows()) {
        pauseUntil(time);
        waitUntilOpen();
      }
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt(); // the query is being stopped: Spark looks at that next
    } catch (ExecutionException unanswered) {
      forget(); // the batch asks Kafka the same, and says what is wrong
    } catch (TimeoutException unanswered) {
      forget();
    }
    opened = System.currentTimeMillis();
    behind = 0L;
    return opened;
  }

  private void waitUntilOpen() throws InterruptedException, ExecutionException, TimeoutException {
    long now = System.currentTimeMillis();
    while (behind == 0L && Math.abs(now - opened) < MOST_MS) { // a clock that was set back is no reason to wait
      long closed = closedFor(now);
      looks++;
      if (closed == 0L) {
        break;
      }
      synchronized (ENDED) {
        ENDED.wait(Math.max(1L, Math.min(closed, opened + MOST_MS - now)));
      }
      now = System.currentTimeMillis();
    }
    begins();
  }

  /** Sleep until a time that Spark computed before the batch: where the clock was set back meanwhile, no longer than a batch waits at all. */
  private static void pauseUntil(long time) throws InterruptedException {
    long left = time - System.currentTimeMillis();
    if (left > 0) {
      Thread.sleep(Math.min(left, MOST_MS));
    }
  }

  private static void tell() {
    synchronized (ENDED) {
      ended++;
      ENDED.notifyAll();
    }
  }

  /** Where the partitions end, `TopicPartition` to `ListOffsetsResultInfo`. */
  protected Map ends() throws InterruptedException, ExecutionException, TimeoutException {
    return offsets(OffsetSpec.latest());
  }

  /** The offset that `ends` has for a partition. */
  protected static long offset(Map ends, TopicPartition part) {
    return ((ListOffsetsResult.ListOffsetsResultInfo) ends.get(part)).offset();
  }

  /** The time of the log: every partition has had a record of this time or later. -1 where one is not known to have had any. */
  protected long time() throws InterruptedException, ExecutionException, TimeoutException {
    return leastTime(times, offsets(OffsetSpec.maxTimestamp()));
  }

  /**
   * The least of the latest times of all partitions of `found`, `TopicPartition` to `ListOffsetsResultInfo`; `known` keeps the time of each.
   *
   * <p>Kafka has no answer for a partition, -1, while its latest record is not on all replicas yet. In a partition to which many write
   * that is so nearly always; the time of an earlier answer still holds.
   */
  public static long leastTime(Map known, Map found) {
    long least = Long.MAX_VALUE;
    for (Iterator parts = found.keySet().iterator(); parts.hasNext();) {
      Object part = parts.next();
      Long time = Long.valueOf(((ListOffsetsResult.ListOffsetsResultInfo) found.get(part)).timestamp());
      Long before = (Long) known.get(part);
      if (before == null || time.longValue() > before.longValue()) {
        known.put(part, time);
      }
      least = Math.min(least, ((Long) known.get(part)).longValue());
    }
    return least;
  }

  private synchronized Map offsets(OffsetSpec which) throws InterruptedException, ExecutionException, TimeoutException {
    if (admin == null) {
      admin = Admin.create(client);
    }
    if (parts == null) {
      parts = partitions();
    }
    Map wanted = new HashMap();
    for (int i = 0; i < parts.size(); i++) {
      wanted.put(parts.get(i), which);
    }
    return (Map) admin.listOffsets(wanted).all().get(ANSWER_MS, TimeUnit.MILLISECONDS);
  }

  private List partitions() throws InterruptedException, ExecutionException, TimeoutException {
    List found = new ArrayList();
    List whole = new ArrayList();
    for (int i = 0; i < names.size(); i++) {
      String name = (String) names.get(i);
      int cut = name.indexOf('/');
      if (cut < 0) {
        whole.add(name);
      } else {
        found.add(new TopicPartition(name.substring(0, cut), Integer.parseInt(name.substring(cut + 1))));
      }
    }
    if (!whole.isEmpty()) {
      Map topics = (Map) admin.describeTopics((Collection) whole).allTopicNames().get(ANSWER_MS, TimeUnit.MILLISECONDS);
      for (Iterator all = topics.values().iterator(); all.hasNext();) {
        TopicDescription topic = (TopicDescription) all.next();
        for (int i = 0; i < topic.partitions().size(); i++) {
          found.add(new TopicPartition(topic.name(), ((TopicPartitionInfo) topic.partitions().get(i)).partition()));
        }
      }
    }
    return found;
  }

  private synchronized void forget() {
    parts = null;
  }

  /** End the connection to Kafka. */
  public synchronized void close() {
    if (admin != null) {
      admin.close(java.time.Duration.ZERO);
      admin = null;
    }
  }
}
