package kappa;

import com.fasterxml.jackson.core.io.NumberOutput;
import java.io.IOException;
import java.math.BigDecimal;
import java.util.Base64;
import org.sparkproject.spark_core.protobuf.CodedInputStream;
import org.sparkproject.spark_core.protobuf.InvalidProtocolBufferException;

/**
 * The bytes of metrics or logs in OpenTelemetry's protobuf (`otlp_proto`) -> the text that `otlp_json` has for them, of what is read.
 *
 * <p>So both are read by the same expressions. What is not read (buckets, exemplars, units) is skipped by its length. Limits are those
 * of JSON, and are looked at before anything is opened. A field that comes twice, or a list in pieces, is refused like a key that
 * comes twice: no encoder writes them, and readers differ in what they make of them.
 */
final class OtlpText {
  private static final int RESOURCE = 0x0a; // the first byte: field 1, with a length
  private static final int SCOPE = 0x12; // field 2, with a length, in a resource and in a scope
  private static final int MOST_TEXT = 2 * RecordText.MOST_BYTES; // characters
  private static final double FEW_DIGITS = 1e15, WHOLE = 1e21; // below them
  // Tags that tell a line or a span from a metric: the wire types of the same numbers differ.
  private static final int[] OF_LINES = {0x09, 0x10, 0x32, 0x38, 0x45, 0x59};
  private static final int[] OF_SPANS = {0x30, 0x39, 0x41};
  private static final int NAME = 0x0a; // of a metric; no line has this tag

  /** A record that is refused, and why. */
  static final class Refused extends IOException {
    Refused(String reason) {
      super(reason);
    }
  }

  private final CodedInputStream in;
  private static final String HEX = "0123456789abcdef";

  private final StringBuilder out;
  private final RecordLimits limits = new RecordLimits();
  private boolean hasItem = false; // a metric, line or span has been seen

  private OtlpText(byte[] record) throws IOException {
    in = CodedInputStream.newInstance(record);
    in.pushLimit(record.length);
    out = new StringBuilder(2 * record.length);
  }

  /** Whether it can be a record with a scope in it. No text is one: it would have a control character that JSON does not allow. */
  static boolean looksLike(byte[] record) {
    for (int i = 1; record[0] == RESOURCE && i < record.length; i++) {
      if (record[i] == SCOPE) {
        return true;
      }
    }
    return false;
  }

  /** The text of a record that looks like one; throws `Refused` where it is none, holds nothing to read, or is over a limit. */
  static String of(byte[] record) throws IOException {
    CodedInputStream first = CodedInputStream.newInstance(record);
    OtlpText text = new OtlpText(record);
    CodedInputStream at = first;
    try {
      first.pushLimit(record.length);
      OtlpMessage kind = text.kind(first, 0);
      at = text.in;
      if (kind == null && !text.hasItem) {
        throw new Refused("nothing to read in a record of a known form");
      }
      text.message(kind == null ? OtlpMessage.METRICS : kind);
      return text.out.toString();
    } catch (InvalidProtocolBufferException broken) {
      throw new Refused("OTLP protobuf: broken at byte " + at.getTotalBytesRead());
    }
  }

  /** What the first metric, line or span is that shows it; null where none does. `level` is 0 outside, 1 in a resource, 2 in a scope, 3 in it. */
  private OtlpMessage kind(CodedInputStream in, int level) throws IOException {
    hasItem |= level == 3;
    boolean named = false;
    for (int tag = in.readTag(); tag != 0; tag = in.readTag()) {
      if (level == 3) {
        if (among(OF_SPANS, tag)) {
          throw new Refused(RecordText.TRACES);
        }
        if (among(OF_LINES, tag)) {
          return OtlpMessage.LOGS;
        }
        named |= tag == NAME;
        in.skipField(tag);
      } else if (tag == (level == 0 ? RESOURCE : SCOPE)) {
        int outer = in.pushLimit(in.readRawVarint32());
        OtlpMessage found = kind(in, level + 1);
        if (found != null) {
          return found;
        }
        in.popLimit(outer);
      } else {
        in.skipField(tag);
      }
    }
    return named ? OtlpMessage.METRICS : null;
  }

  private static boolean among(int[] tags, int tag) {
    for (int i = 0; i < tags.length; i++) {
      if (tags[i] == tag) {
        return true;
      }
    }
    return false;
  }

  /** Writes the message that goes up to the limit of the bytes. */
  private void message(OtlpMessage message) throws IOException {
    check(limits.opened(false, null));
    out.append('{');
    int seen = 0, list = 0; // by bits; the number of the list that is open
    for (int tag = in.readTag(); tag != 0; tag = in.readTag()) {
      int number = tag >>> 3;
      OtlpMessage.Field field = message.field(number);
      if (field == null) {
        in.skipField(tag);
        continue;
      }
      if ((tag & 7) != field.wireType) {
        throw new Refused("OTLP protobuf: " + message.name + "." + field.name + " has wire type " + (tag & 7));
      }
      if (number == list) {
        out.append(',');
      } else {
        if (list != 0) {
          closed(']');
        }
        list = field.list ? number : 0;
        if ((seen & 1 << number) != 0) {
          throw new Refused("OTLP protobuf: " + message.name + "." + field.name + " twice");
        }
        seen |= 1 << number;
        check(limits.part());
        begin(field);
        if (!field.list) {
          continue;
        }
      }
      check(limits.part());
      value(field);
    }
    if (list != 0) {
      closed(']');
    }
    closed('}');
  }

  /** Writes a field's name, and its value where it is no list. JSON leaves zeros out that are the same as what is absent. */
  private void begin(OtlpMessage.Field field) throws IOException {
    int before = out.length();
    if (out.charAt(before - 1) != '{') {
      out.append(',');
    }
    out.append('"').append(field.name).append("\":");
    if (field.list) {
      check(limits.opened(true, field.name));
      out.append('[');
    } else if (!value(field) && !field.always) {
      out.setLength(before);
    }
  }

  private void closed(char brace) {
    limits.closed();
    out.append(brace);
  }

  /** Writes a value; answers whether it is other than 0 or empty. */
  private boolean value(OtlpMessage.Field field) throws IOException {
    switch (field.kind) {
      case OtlpMessage.MESSAGE:
        int outer = in.pushLimit(in.readRawVarint32());
        message(field.message);
        in.popLimit(outer);
        return true;
      case OtlpMessage.STRING:
        return string(RecordText.decoded(in.readByteArray()));
      case OtlpMessage.BYTES:
        return string(Base64.getEncoder().encodeToString(in.readByteArray()));
      case OtlpMessage.BOOL:
        boolean yes = in.readBool();
        out.append(yes);
        return yes;
      case OtlpMessage.ENUM:
        int number = in.readEnum();
        out.append(number);
        return number != 0;
      case OtlpMessage.DOUBLE:
        double x = in.readDouble();
        number(x);
        return x != 0;
      case OtlpMessage.INT64:
        return quoted(in.readInt64(), true);
      default:
        return quoted(in.readFixed64(), field.kind == OtlpMessage.SFIXED64);
    }
  }

  /** A whole number of 64 bits, which JSON has as text. */
  private boolean quoted(long number, boolean signed) {
    out.append('"').append(signed ? Long.toString(number) : Long.toUnsignedString(number)).append('"');
    return number != 0;
  }

  private boolean string(String text) throws IOException {
    if (text == null) {
      throw new Refused("not UTF-8");
    }
    quote(text);
    if (out.length() > MOST_TEXT) {
      throw new Refused("more than " + MOST_TEXT + " characters as JSON");
    }
    return !text.isEmpty();
  }

  /** A string of JSON. */
  private void quote(String value) {
    out.append('"');
    for (int i = 0; i < value.length(); i++) {
      char c = value.charAt(i);
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < 0x20) {
        out.append("\\u00").append(HEX.charAt(c >> 4)).append(HEX.charAt(c & 15));
      } else {
        out.append(c);
      }
    }
    out.append('"');
  }

  /** A number; a whole one without a point, as the Collector's JSON has it. */
  private void number(double x) {
    double size = Math.abs(x);
    if (size < FEW_DIGITS && x == (long) x) {
      out.append((long) x);
    } else if (size < WHOLE && x == Math.rint(x)) {
      out.append(new BigDecimal(shortest(x)).toPlainString());
    } else if (x - x == 0) {
      out.append(shortest(x));
    } else {
      out.append('"').append(x).append('"'); // NaN, Infinity
    }
  }

  /** The fewest digits that are this number: before Java 19 `Double.toString` writes more of some. */
  private static String shortest(double x) {
    return NumberOutput.toString(x, true);
  }

  private static void check(String reason) throws Refused {
    if (reason != null) {
      throw new Refused(reason);
    }
  }
}
