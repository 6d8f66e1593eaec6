package org.apache.kafka.common.serialization;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import kappa.PollBytes;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/**
 * Takes the place of Kafka's class of this name in Spark's JVM, and bounds what its consumers hold: Kafka bounds the bytes of
 * compressed batches, of which one of a megabyte may hold 255 MB of records. Spark lets nobody choose another deserializer.
 *
 * <p>A key or value of more than `MOST` bytes becomes a stand-in, the only one that is ever seen of it: each further copy, in Kafka's
 * list of what it has fetched and in Spark's rows, would cost that much heap before any expression could refuse it. A stand-in has
 * the first `MOST` bytes, the length (8 bytes, the most significant first), the SHA-256 and a mark. Nobody can send one: it is longer
 * than `MOST`. pipelines/inputs/fields.py and RecordText read it.
 *
 * <p>A poll answers as many records as hold `MOST_OF_POLL` bytes, and one at least: an exception at the next one ends it, after
 * which Kafka's consumer tries that record again in the next poll. Nothing is lost, and results do not depend on polls.
 */
public class ByteArrayDeserializer implements Deserializer {
  static final int MOST = 1 << 20;
  static final long MOST_OF_POLL = 32L << 20;
  static final int OF_RECORD = 200; // bytes that Kafka's objects for a record take, at least
  static final int OF_HEADER = 150;
  static final byte[] MARK = {'s', 't', 'a', 'n', 'd', '-', 'i', 'n'};

  @Override
  public Object deserialize(String topic, byte[] data) {
    return data == null || data.length <= MOST ? data : standIn(ByteBuffer.wrap(data));
  }

  @Override
  public Object deserialize(String topic, Headers headers, ByteBuffer data) {
    if (data == null) {
      return null;
    }
    count(Math.min(data.remaining(), MOST) + OF_RECORD + held(headers));
    if (data.remaining() > MOST) {
      return standIn((ByteBuffer) data.duplicate());
    }
    byte[] all = new byte[data.remaining()];
    ((ByteBuffer) data.duplicate()).get(all);
    return all;
  }

  /** Add a record's bytes to those of the poll. Raises SerializationException where that has others and they would be too many. */
  private void count(int bytes) {
    long[] held = PollBytes.held(); // of all deserializers: keys and values have one each
    if (held[0] > 0 && held[0] + bytes > MOST_OF_POLL) {
      throw new SerializationException("enough for one poll");
    }
    held[0] += bytes;
  }

  /** What headers hold; there are few (`DefaultRecord`). They are copied, so that none keeps the whole record. */
  private static int held(Headers headers) {
    Header[] all = headers.toArray();
    int bytes = OF_HEADER * all.length;
    for (int i = 0; i < all.length; i++) {
      bytes += all[i].key().length() + (all[i].value() == null ? 0 : all[i].value().length);
    }
    return bytes;
  }

  private static byte[] standIn(ByteBuffer data) {
    ByteBuffer made = ByteBuffer.allocate(MOST + 8 + 32 + MARK.length);
    ByteBuffer first = (ByteBuffer) data.duplicate();
    first.limit(first.position() + MOST);
    made.put(first).putLong(data.remaining());
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      digest.update(data);
      return made.put(digest.digest()).put(MARK).array();
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException(impossible); // every Java has it
    }
  }
}
