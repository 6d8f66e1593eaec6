package org.apache.kafka.common.serialization;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import org.apache.kafka.common.header.Headers;

/**
 * Takes the place of Kafka's class of this name in Spark's JVM: a key or value of more than `MOST` bytes becomes a stand-in, the
 * only one that is ever seen of it.
 *
 * <p>Kafka bounds the bytes of compressed batches, so a record of 250 MB is legal. Each further copy of it, in Kafka's list of what it
 * has fetched and in Spark's rows, would cost that much heap, before any expression could refuse it. Spark lets nobody choose
 * another deserializer.
 *
 * <p>A stand-in has the first `MOST` bytes, the length (8 bytes, the most significant first), the SHA-256 and a mark. Nobody can send
 * one: it is longer than `MOST`. pipelines/inputs/fields.py and RecordText read it.
 */
public class ByteArrayDeserializer implements Deserializer {
  static final int MOST = 1 << 20;
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
    if (data.remaining() > MOST) {
      return standIn((ByteBuffer) data.duplicate());
    }
    byte[] all = new byte[data.remaining()];
    ((ByteBuffer) data.duplicate()).get(all);
    return all;
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
