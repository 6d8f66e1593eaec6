package org.apache.kafka.common.record;

import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.utils.ByteUtils;
import org.apache.kafka.common.utils.Utils;

/**
 * Takes the place of Kafka's class of this name in Spark's JVM, and bounds the headers of a record that is read: each is three objects,
 * however small, and a batch of a megabyte may hold a hundred million empty ones. They are made before any deserializer is asked, so
 * that a record of them ended the JVM whenever it was read, in quarantine or not.
 *
 * <p>Where there are more than `MOST_HEADERS`, or they have more than `MOST_HEADER_BYTES`, a record has none. One that is nothing but
 * headers has an empty key: Kafka asks no deserializer about what is null, and `ByteArrayDeserializer` counts what a poll holds.
 *
 * <p>Records are read and written in the form of Kafka's protocol: length, attributes, time and offset after those of the batch, key,
 * value, headers; lengths are -1 where there is nothing.
 */
public class DefaultRecord implements Record {
  public static final int MAX_RECORD_OVERHEAD = 21; // bytes of all but key, value and headers, at most
  static final int MOST_HEADERS = 100; // our own letters have eleven
  static final int MOST_HEADER_BYTES = 1 << 16; // with their lengths
  private static final ByteBuffer EMPTY = ByteBuffer.allocate(0);

  private final int sizeInBytes;
  private final byte attributes;
  private final long offset;
  private final long timestamp;
  private final int sequence;
  private final ByteBuffer key;
  private final ByteBuffer value;
  private final Header[] headers;

  DefaultRecord(int sizeInBytes, byte attributes, long offset, long timestamp, int sequence, ByteBuffer key, ByteBuffer value, Header[] headers) {
    this.sizeInBytes = sizeInBytes;
    this.attributes = attributes;
    this.offset = offset;
    this.timestamp = timestamp;
    this.sequence = sequence;
    this.key = key;
    this.value = value;
    this.headers = headers;
  }

  @Override
  public long offset() {
    return offset;
  }

  @Override
  public int sequence() {
    return sequence;
  }

  @Override
  public int sizeInBytes() {
    return sizeInBytes;
  }

  @Override
  public long timestamp() {
    return timestamp;
  }

  public byte attributes() {
    return attributes;
  }

  @Override
  public void ensureValid() {}

  @Override
  public int keySize() {
    return size(key);
  }

  @Override
  public int valueSize() {
    return size(value);
  }

  @Override
  public boolean hasKey() {
    return key != null;
  }

  @Override
  public ByteBuffer key() {
    return key == null ? null : (ByteBuffer) key.duplicate();
  }

  @Override
  public boolean hasValue() {
    return value != null;
  }

  @Override
  public ByteBuffer value() {
    return value == null ? null : (ByteBuffer) value.duplicate();
  }

  @Override
  public Header[] headers() {
    return headers;
  }

  @Override
  public boolean hasMagic(byte magic) {
    return magic >= RecordBatch.MAGIC_VALUE_V2;
  }

  @Override
  public boolean isCompressed() {
    return false; // that is a matter of its batch
  }

  @Override
  public boolean hasTimestampType(TimestampType kind) {
    return false; // likewise
  }

  /** A record of an uncompressed batch. Raises InvalidRecordException for what is none. */
  public static DefaultRecord readFrom(ByteBuffer buffer, long baseOffset, long baseTimestamp, int baseSequence, Long logAppendTime) {
    return read(buffer, ByteUtils.readVarint(buffer), baseOffset, baseTimestamp, baseSequence, logAppendTime);
  }

  /** The same of a compressed batch. */
  public static DefaultRecord readFrom(InputStream in, long baseOffset, long baseTimestamp, int baseSequence, Long logAppendTime)
      throws IOException {
    int size = ByteUtils.readVarint(in);
    ByteBuffer body = ByteBuffer.allocate(size);
    if (Utils.readFully(in, body) != size) {
      throw new InvalidRecordException("the batch ends within a record of " + size + " bytes");
    }
    body.flip();
    return read(body, size, baseOffset, baseTimestamp, baseSequence, logAppendTime);
  }

  /** The same without key and value. */
  public static PartialDefaultRecord readPartiallyFrom(InputStream in, long baseOffset, long baseTimestamp, int baseSequence, Long logAppendTime)
      throws IOException {
    DefaultRecord found = readFrom(in, baseOffset, baseTimestamp, baseSequence, logAppendTime);
    return new PartialDefaultRecord(found.sizeInBytes, found.attributes, found.offset, found.timestamp, found.sequence, found.keySize(),
        found.valueSize());
  }

  private static DefaultRecord read(ByteBuffer buffer, int size, long baseOffset, long baseTimestamp, int baseSequence, Long logAppendTime) {
    if (size < 0 || size > buffer.remaining()) {
      throw new InvalidRecordException("a record of " + size + " bytes in " + buffer.remaining());
    }
    int end = buffer.position() + size;
    try {
      byte attributes = buffer.get();
      long time = baseTimestamp + ByteUtils.readVarlong(buffer);
      int place = ByteUtils.readVarint(buffer);
      int sequence = baseSequence < 0 ? RecordBatch.NO_SEQUENCE : DefaultRecordBatch.incrementSequence(baseSequence, place);
      ByteBuffer key = part(buffer);
      ByteBuffer value = part(buffer);
      Header[] headers = headers(buffer, end);
      if (key == null && value == null && headers.length > 0) {
        key = EMPTY;
      }
      if (buffer.position() != end) {
        throw new InvalidRecordException("a record of " + size + " bytes ends at another place");
      }
      return new DefaultRecord(ByteUtils.sizeOfVarint(size) + size, attributes, baseOffset + place,
          logAppendTime == null ? time : logAppendTime.longValue(), sequence, key, value, headers);
    } catch (BufferUnderflowException broken) {
      throw new InvalidRecordException("no record", broken);
    } catch (IllegalArgumentException broken) {
      throw new InvalidRecordException("no record", broken);
    }
  }

  /** The headers up to the end of their record. */
  private static Header[] headers(ByteBuffer buffer, int end) {
    int count = ByteUtils.readVarint(buffer);
    if (count < 0) {
      throw new InvalidRecordException(count + " headers");
    }
    if (count > MOST_HEADERS || end - buffer.position() > MOST_HEADER_BYTES) {
      buffer.position(end);
      return Record.EMPTY_HEADERS;
    }
    Header[] found = new Header[count];
    for (int i = 0; i < count; i++) {
      ByteBuffer name = part(buffer);
      if (name == null) {
        throw new InvalidRecordException("a header without a name");
      }
      found[i] = new RecordHeader(name, part(buffer));
    }
    return found;
  }

  /** The bytes that begin here, their length first; null for a length below 0. */
  private static ByteBuffer part(ByteBuffer buffer) {
    int size = ByteUtils.readVarint(buffer);
    if (size < 0) {
      return null;
    }
    ByteBuffer found = (ByteBuffer) buffer.slice();
    found.limit(size);
    buffer.position(buffer.position() + size);
    return found;
  }

  /** Write a record; answers how many bytes it has. */
  public static int writeTo(DataOutputStream out, int offsetDelta, long timestampDelta, ByteBuffer key, ByteBuffer value, Header[] headers)
      throws IOException {
    int size = sizeOfBodyInBytes(offsetDelta, timestampDelta, size(key), size(value), headers);
    ByteUtils.writeVarint(size, out);
    out.write(0); // attributes: none has a meaning
    ByteUtils.writeVarlong(timestampDelta, out);
    ByteUtils.writeVarint(offsetDelta, out);
    write(out, key);
    write(out, value);
    ByteUtils.writeVarint(headers.length, out);
    for (int i = 0; i < headers.length; i++) {
      byte[] held = headers[i].value();
      write(out, ByteBuffer.wrap(headers[i].key().getBytes(StandardCharsets.UTF_8)));
      write(out, held == null ? null : ByteBuffer.wrap(held));
    }
    return ByteUtils.sizeOfVarint(size) + size;
  }

  private static void write(DataOutputStream out, ByteBuffer bytes) throws IOException {
    ByteUtils.writeVarint(size(bytes), out);
    if (bytes != null) {
      Utils.writeTo(out, bytes, bytes.remaining());
    }
  }

  /** How many bytes a record has that is written so. */
  public static int sizeInBytes(int offsetDelta, long timestampDelta, ByteBuffer key, ByteBuffer value, Header[] headers) {
    return sizeInBytes(offsetDelta, timestampDelta, size(key), size(value), headers);
  }

  /** The same by the lengths of key and value. */
  public static int sizeInBytes(int offsetDelta, long timestampDelta, int keySize, int valueSize, Header[] headers) {
    int size = sizeOfBodyInBytes(offsetDelta, timestampDelta, keySize, valueSize, headers);
    return ByteUtils.sizeOfVarint(size) + size;
  }

  /** The same without the bytes of its length. */
  public static int sizeOfBodyInBytes(int offsetDelta, long timestampDelta, int keySize, int valueSize, Header[] headers) {
    return 1 + ByteUtils.sizeOfVarlong(timestampDelta) + ByteUtils.sizeOfVarint(offsetDelta) + sizeOf(keySize, valueSize, headers);
  }

  /** How many bytes it has at most. */
  static int recordSizeUpperBound(ByteBuffer key, ByteBuffer value, Header[] headers) {
    return MAX_RECORD_OVERHEAD + sizeOf(size(key), size(value), headers);
  }

  private static int sizeOf(int keySize, int valueSize, Header[] headers) {
    int size = sizeOf(keySize) + sizeOf(valueSize) + ByteUtils.sizeOfVarint(headers.length);
    for (int i = 0; i < headers.length; i++) {
      byte[] value = headers[i].value();
      size += sizeOf(headers[i].key().getBytes(StandardCharsets.UTF_8).length) + sizeOf(value == null ? -1 : value.length);
    }
    return size;
  }

  private static int sizeOf(int length) {
    return ByteUtils.sizeOfVarint(length) + Math.max(length, 0);
  }

  private static int size(ByteBuffer buffer) {
    return buffer == null ? -1 : buffer.remaining();
  }
}
