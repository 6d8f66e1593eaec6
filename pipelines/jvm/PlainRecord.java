package kappa;

import java.nio.ByteOrder;
import org.apache.spark.unsafe.Platform;

/**
 * Reads a flat record in its most usual form without an object for any part of it: strings of plain ASCII without escapes, members each once.
 *
 * <p>What is not of that form goes to a parser of JSON. Nothing may be taken here that the parser's reader refuses, nor be read otherwise.
 */
abstract class PlainRecord {
  static final int HOST_PART = 0, SERVICE_PART = 1; // what records of either kind name
  private static final long EACH = 0x0101010101010101L; // of the eight bytes of a number
  private static final long HIGHEST = 0x80 * EACH; // bits
  private static final boolean FIRST_IS_LOWEST = ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN;
  static final byte[] TIME = bytes("@timestamp"), HOST = bytes("host.name"), SERVICE = bytes("service.name");

  /** Of the record that was read last: its time in microseconds since 1970. */
  long micros;
  byte[] text;
  int at;
  int begin; // of the string that was read last
  int end;
  final int[] begins; // of the parts that were named; -1: not yet
  final int[] ends;

  private long formerHalf; // of the characters of a minute
  private long latterHalf;
  private long minute = -1; // microseconds since 1970

  PlainRecord(int parts) {
    begins = new int[parts];
    ends = new int[parts];
  }

  /** Begin a record; false where it is not an object, or so long that a parser looks at it. */
  final boolean opens(byte[] record) {
    if (record == null || record.length == 0 || record.length > RecordText.MOST_FLAT || record[0] != '{') {
      return false;
    }
    text = record;
    at = 1;
    micros = -1;
    for (int part = 0; part < begins.length; part++) {
      begins[part] = ends[part] = -1;
    }
    return true;
  }

  /** The string that begins here is a part, which must not have been there before. */
  final boolean part(int part) {
    if (begins[part] >= 0 || !string()) {
      return false;
    }
    begins[part] = begin;
    ends[part] = end;
    return true;
  }

  /** Characters of a part; 0 where it was not there. */
  final int size(int part) {
    return ends[part] - begins[part];
  }

  final boolean isName(int part) {
    return size(part) > 0 && size(part) <= FlatRecord.MAX_NAME;
  }

  /** The string that begins here is the time, which must not have been there before. */
  final boolean time() {
    return micros < 0 && string() && end - begin >= FlatRecord.MINUTE && (micros = sinceMinute()) >= 0;
  }

  /** The time of a string. Most records are of the same minute as the one before: that is not read again. */
  private long sinceMinute() {
    long former = Platform.getLong(text, Platform.BYTE_ARRAY_OFFSET + begin);
    long latter = Platform.getLong(text, Platform.BYTE_ARRAY_OFFSET + begin + Long.BYTES);
    if (former != formerHalf || latter != latterHalf) {
      minute = FlatRecord.minute(text, begin);
      formerHalf = former;
      latterHalf = latter;
    }
    long rest = FlatRecord.rest(text, begin, end - begin);
    return minute < 0 || rest < 0 ? -1 : minute + rest;
  }

  /** Whether the object ends here, and the record with it. */
  final boolean closes() {
    if (!take('}')) {
      return false;
    }
    space();
    return at == text.length;
  }

  /** The string that begins here, from `begin` to `end`. */
  final boolean string() {
    space();
    if (at >= text.length || text[at] != '"') {
      return false;
    }
    begin = ++at;
    while (at + Long.BYTES <= text.length) {
      long found = notPlain(Platform.getLong(text, Platform.BYTE_ARRAY_OFFSET + at));
      if (found != 0) {
        at += FIRST_IS_LOWEST ? Long.numberOfTrailingZeros(found) / Byte.SIZE : 0;
        break;
      }
      at += Long.BYTES;
    }
    for (; at < text.length; at++) {
      byte c = text[at];
      if (c == '"') {
        end = at++;
        return true;
      }
      if (c < 0x20 || c == '\\' || c == 0x7f) { // bytes of other than ASCII are negative
        return false;
      }
    }
    return false;
  }

  /**
   * The highest bits of those of eight bytes that end a string or make it another than plain, and maybe of bytes above the lowest of these: a sum
   * carries into the next byte where its own is 0x80 or more. Not plain all the same is none where none is.
   */
  private static long notPlain(long some) {
    final long control = some + (0x80 - 0x20) * EACH; // without the highest bit where it is one
    final long quote = (some ^ '"' * EACH) + 0x7f * EACH;
    final long escape = (some ^ '\\' * EACH) + 0x7f * EACH;
    return (some | some + EACH | ~(control & quote & escape)) & HIGHEST;
  }

  /** Whether this character is next, spaces left out; it is taken then. */
  final boolean take(char wanted) {
    space();
    if (at < text.length && text[at] == wanted) {
      at++;
      return true;
    }
    return false;
  }

  final void space() {
    while (at < text.length && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) {
      at++;
    }
  }

  final boolean is(byte[] wanted, int from, int to) {
    if (to - from != wanted.length) {
      return false;
    }
    for (int i = 0; i < wanted.length; i++) {
      if (text[from + i] != wanted[i]) {
        return false;
      }
    }
    return true;
  }

  static byte[] bytes(String ascii) {
    byte[] found = new byte[ascii.length()];
    for (int i = 0; i < found.length; i++) {
      found[i] = (byte) ascii.charAt(i);
    }
    return found;
  }
}
