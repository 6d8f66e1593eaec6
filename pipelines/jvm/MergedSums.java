package kappa;

import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.expressions.Aggregator;

/** Blocks of sums of a window and bucket of hosts -> one with the sums of all that is needed (`HostShares`); null where there is none. */
public class MergedSums extends Aggregator {
  private static final byte[] NOTHING = new byte[0];

  private final long capacity;

  public MergedSums(long capacity) {
    this.capacity = capacity;
  }

  @Override
  public Object zero() {
    return NOTHING;
  }

  @Override
  public Object reduce(Object sums, Object block) {
    return block == null ? sums : merge(sums, block);
  }

  @Override
  public Object merge(Object one, Object other) {
    if (((byte[]) one).length == 0) {
      return other;
    }
    return ((byte[]) other).length == 0 ? one : SumsBlock.merged((byte[]) one, (byte[]) other, capacity);
  }

  @Override
  public Object finish(Object sums) {
    return ((byte[]) sums).length == 0 ? null : SumsBlock.needed((byte[]) sums, capacity);
  }

  @Override
  public Encoder bufferEncoder() {
    return Encoders.BINARY();
  }

  @Override
  public Encoder outputEncoder() {
    return Encoders.BINARY();
  }
}
