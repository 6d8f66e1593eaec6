package kappa;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.zip.InflaterInputStream;
import org.apache.spark.sql.api.java.UDF1;

/**
 * A log message -> its template, by a table of masks.
 *
 * <p>The table, its operations and why they find what a regular expression finds: models/templates/pattern_program.py. This is
 * models/templates/matcher.py in Java, operation by operation. Lengths are in code points, as Spark and Python count.
 * A line that is of the shape of one before it (`LineShapes`) goes by none of its operations.
 */
public class LogTemplate implements UDF1 {
  // the header of the table, and what it says of a mask
  private static final int MASKS = 0;
  private static final int CLASS_COUNT = 1;
  private static final int STARTS = 2;
  private static final int SECONDS = 3;
  private static final int RARE = 4;
  private static final int ALLOWED = 5;
  private static final int CLASSES = 6;
  private static final int STACK = 7;
  private static final int SLOTS = 8;
  private static final int MOST_READ = 9;
  private static final int MOST_WRITTEN = 10;
  private static final int HEADER_WORDS = 11;
  private static final int CODE = 0;
  private static final int REPLACEMENT = 1;
  private static final int KEEPS = 2;
  private static final int MASK_WORDS = 3;
  private static final int ASCII = 128;

  // what an entry of the stack is
  private static final int OPTIONS = 0;
  private static final int COUNTED = 1;
  private static final int GIVES_BACK = 2;
  private static final int TAKES_MORE = 3;
  private static final int PLACE = 4;
  private static final int ENTRY = 4;

  // a place of a line: the class of its character, the character, and a bit for each mask that may begin there
  private static final int CLASS = 0xFF;
  private static final int CHARACTER_BITS = 8;
  private static final int CHARACTER = 0xFFFFFF;
  private static final int READ_PLACE = 1 << 23; // a place of the line as it was read, instead of a character
  private static final int MASK_BITS = 32;
  private static final int BLOCK_BITS = 4;
  private static final int BLOCK = 1 << BLOCK_BITS;
  private static final int ROOM = 64;

  private static Table known; // by the last one that was made: tasks have copies of a function, but share its table

  private final byte[] packed;
  private transient Work work; // of the last line, for the next one

  /** The table, packed with zlib: numbers of four bytes, the highest first. */
  public LogTemplate(byte[] packed) {
    this.packed = packed;
  }

  private static final class Table {
    final byte[] packed;
    final int[] numbers;
    final LineShapes shapes;
    final LookupSets lookups; // null where there are more classes than it has room for: each line is masked then

    Table(byte[] packed) {
      this.packed = packed;
      try {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        InflaterInputStream in = new InflaterInputStream(new ByteArrayInputStream(packed));
        byte[] some = new byte[65536];
        for (int n = in.read(some); n >= 0; n = in.read(some)) {
          bytes.write(some, 0, n);
        }
        numbers = new int[bytes.size() / 4];
        ByteBuffer.wrap(bytes.toByteArray()).asIntBuffer().get(numbers);
        shapes = new LineShapes(numbers, numbers[CLASSES]);
        lookups = numbers[CLASS_COUNT] > LookupSets.MOST ? null : lookups();
      } catch (IOException error) {
        throw new IllegalArgumentException("a table of masks that cannot be unpacked", error);
      }
    }

    private LookupSets lookups() {
      final int[] t = numbers;
      return new LookupSets(t, t[CLASS_COUNT], t[STARTS], t[SECONDS], t[RARE], t[ALLOWED]);
    }
  }

  private static synchronized Table table(byte[] packed) {
    if (known == null || !Arrays.equals(known.packed, packed)) {
      known = new Table(packed);
    }
    return known;
  }

  @Override
  public Object call(Object message) {
    if (message == null) {
      return null;
    }
    Work own;
    synchronized (this) { // tasks of one executor may share a function
      own = work;
      work = null;
    }
    if (own == null) {
      own = work();
    }
    String found = own.template((String) message);
    synchronized (this) {
      work = own;
    }
    return found;
  }

  /** What makes templates for one task alone. */
  Work work() {
    return new Work(table(packed));
  }

  private static int character(long place) {
    return (int) (place >>> CHARACTER_BITS) & CHARACTER;
  }

  /** The class of a place's character. */
  static int kind(long place) {
    return (int) place & CLASS;
  }

  /** The masks that may begin at a place, a bit each. */
  static int masks(long place) {
    return (int) (place >>> MASK_BITS);
  }

  /** Where the character of a place was in a line of which a shape is made; 0 where it comes from a mask. */
  static int readAt(long place) {
    final int found = character(place);
    return (found & READ_PLACE) == 0 ? 0 : found ^ READ_PLACE;
  }

  /** What it takes to make a template, which is made once. */
  static final class Work {
    private final int[] t;
    private final int[] stack;
    private final int[] slots;
    private final int[] kept = new int[2];
    private long[] line = new long[1024];
    private long[] other = new long[1024];
    private long[] blocks = new long[64];
    private int[] replaced = new int[256];
    private int[] out = new int[256];
    private int made; // of `out`, by the last text
    private final Table table;
    private long saved = 0; // by known shapes, see LineShapes.pays
    private long[][] sets = null; // of the line's places, while its shape is made

    Work(Table table) {
      this.table = table;
      t = table.numbers;
      stack = new int[ENTRY * t[STACK]];
      slots = new int[t[SLOTS]];
    }

    String template(String text) {
      int size = masked(read(text));
      return new String(out, 0, size);
    }

    /** Make the template of a text of ASCII, for `copy`; answers its length. */
    int ofAscii(byte[] text, int begin, int end) {
      return masked(read(text, begin, end));
    }

    /** Write the template that was made last, of a text of ASCII, from a place on. */
    void copy(byte[] to, int at) {
      for (int i = 0; i < made; i++) {
        to[at + i] = (byte) out[i];
      }
    }

    /** Make the template of the `n` characters that were read into `out`; answers its length. */
    private int masked(int n) {
      final LineShapes.Shape shape = table.lookups == null || n == 0 ? null : shape(n);
      int size;
      if (shape == null) {
        size = Math.min(replaceAll(n), t[MOST_WRITTEN]);
        room(size);
        for (int i = 0; i < size; i++) {
          out[i] = character(line[i + 1]);
        }
      } else {
        final int[] parts = shape.template;
        size = parts.length;
        room(size);
        for (int i = 0; i < size; i++) {
          out[i] = parts[i] < 0 ? character(line[-parts[i]]) : parts[i];
        }
      }
      int begin = 0;
      while (begin < size && out[begin] == ' ') {
        begin++;
      }
      while (size > begin && out[size - 1] == ' ') {
        size--;
      }
      made = size - begin;
      System.arraycopy(out, begin, out, 0, made);
      return made;
    }

    private void room(int size) {
      if (out.length < size) {
        out = new int[2 * size];
      }
    }

    /** The shape of the line of `n` places, if it is known or worth making; else null. */
    private LineShapes.Shape shape(int n) {
      final long key = table.shapes.key(line, n);
      final LineShapes.Shape known = table.shapes.find(line, n, key);
      if (known != null) {
        saved += LineShapes.SAVED_BY_ONE;
        return known;
      }
      saved++;
      if (!table.shapes.cameBefore(key) || !table.shapes.pays(saved)) {
        return null;
      }
      saved = 0;
      return newShape(n, key);
    }

    /** Mask the line with its places instead of its characters, to see which of them the template has; the line is as it was afterwards. */
    private LineShapes.Shape newShape(int n, long key) {
      final long[] read = Arrays.copyOf(line, n + ROOM);
      for (int i = 1; i <= n; i++) {
        line[i] = (long) (READ_PLACE | i) << CHARACTER_BITS | kind(line[i]);
      }
      sets = LookupSets.ofAll(n);
      final int[] parts = new int[Math.min(replaceAll(n), t[MOST_WRITTEN])];
      for (int i = 0; i < parts.length; i++) {
        final int from = readAt(line[i + 1]);
        parts[i] = from == 0 ? character(line[i + 1]) : -from;
      }
      final LineShapes.Shape shape = table.shapes.add(key, sets, n, parts);
      sets = null;
      line = read;
      return shape;
    }

    /** Apply each mask to the line of `n` places; answers how many it has afterwards. */
    private int replaceAll(int n) {
      final int edge = t[CLASS_COUNT] - 1;
      line[0] = edge;
      line[n + 1] = edge;
      sayWhatBegins(n, 1, n);
      long anywhere = anyOfBlocks(n);
      int first = 0; // of the masks that saw the line as it is
      for (int mask = 0; mask < t[MASKS]; mask++) {
        final long bit = 1L << (MASK_BITS + mask);
        if ((anywhere & bit) == 0) {
          continue;
        }
        int many = replace(n, bit, HEADER_WORDS + mask * MASK_WORDS);
        if (many == 0) {
          continue;
        }
        if (sets != null) {
          table.lookups.keepOthers(sets, line, n, masksFrom(first, mask + 1));
          first = mask + 1;
        }
        n = written - 1;
        long[] read = line;
        line = other;
        other = read;
        line[0] = edge;
        line[n + 1] = edge;
        int known = n;
        while (many > 0) {
          many -= 2;
          if (replaced[many] <= known) {
            known = sayWhatBegins(n, replaced[many], Math.min(known, replaced[many + 1]));
          }
        }
        anywhere = anyOfBlocks(n);
      }
      if (sets != null) {
        table.lookups.keepOthers(sets, line, n, masksFrom(first, t[MASKS]));
      }
      return n;
    }

    private static int masksFrom(int first, int end) {
      return (int) ((1L << end) - (1L << first));
    }

    /** What the table has from an address on for the class of the character at a place. */
    private int at(int base, int place) {
      if (sets != null) {
        table.lookups.keepSame(sets, line[place], base);
      }
      return t[base + kind(line[place])];
    }

    /** Take in what counts of a text; answers its code points. */
    private int read(String text) {
      final int most = (int) Math.min((long) text.length(), 2L * t[MOST_READ]);
      if (line.length < most + ROOM) {
        line = new long[2 * most + ROOM];
      }
      final int classes = t[CLASSES];
      int n = 0;
      int i = 0;
      for (; i < most && n < t[MOST_READ]; i++) {
        int c = text.charAt(i);
        int kind;
        if (c < ASCII) {
          kind = t[classes + c];
        } else {
          if (Character.isHighSurrogate((char) c) && i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1))) {
            c = Character.toCodePoint((char) c, text.charAt(i + 1));
            i++;
          }
          kind = classOf(c);
        }
        n++;
        line[n] = ((long) c << CHARACTER_BITS) | kind;
      }
      return i < text.length() ? cut(n) : n;
    }

    /** The same of a text of ASCII. */
    private int read(byte[] text, int begin, int end) {
      final int n = Math.min(end - begin, t[MOST_READ]);
      if (line.length < n + ROOM) {
        line = new long[2 * n + ROOM];
      }
      final int classes = t[CLASSES];
      for (int i = 1; i <= n; i++) {
        final int c = text[begin + i - 1];
        line[i] = ((long) c << CHARACTER_BITS) | t[classes + c];
      }
      return n < end - begin ? cut(n) : n;
    }

    /** Where a line ends of which `n` characters are read: behind the first bracket that is open there and follows a word or `=`. */
    private int cut(int n) {
      final int[] openAt = new int[n];
      int depth = 0;
      for (int i = 1; i <= n; i++) {
        final long c = line[i] >> CHARACTER_BITS;
        if (c == '(' || c == '[' || c == '{') {
          openAt[depth] = i;
          depth++;
        } else if ((c == ')' || c == ']' || c == '}') && depth > 0) {
          final long opening = line[openAt[depth - 1]] >> CHARACTER_BITS;
          depth -= c - opening > 0 && c - opening <= 2 ? 1 : 0;
        }
      }
      for (int k = 0; k < depth; k++) {
        final int i = openAt[k];
        final long before = i > 1 ? line[i - 1] >> CHARACTER_BITS : 0;
        final long small = before | 0x20;
        if (before == '_' || before == '=' || (before >= '0' && before <= '9') || (small >= 'a' && small <= 'z')) {
          return i;
        }
      }
      return n;
    }

    private int classOf(int c) {
      int named = t[CLASSES] + ASCII + 1;
      while (t[named] >= 0) {
        if (t[named] == c) {
          return t[named + 1];
        }
        named += 2;
      }
      return t[t[CLASSES] + ASCII];
    }

    /** Say of places which masks may begin there: from `end` back to the blank before the word of `begin`; answers that place. */
    private int sayWhatBegins(int n, int begin, int end) {
      final int[] t = this.t;
      final long[] line = this.line;
      final int count = t[CLASS_COUNT];
      final int starts = t[STARTS];
      final int seconds = t[SECONDS];
      final int rare = t[RARE];
      final int allowed = t[ALLOWED];
      int inWord = 0;
      for (int i = end + 1; i <= n && t[rare + kind(line[i])] >= 0; i++) {
        inWord |= t[rare + kind(line[i])];
      }
      int second = kind(line[end + 1]);
      int one = kind(line[end]);
      int i = end;
      while (i > 0) {
        final int before = kind(line[i - 1]);
        final int here = t[rare + one];
        inWord = here < 0 ? 0 : inWord | here;
        final int found = t[starts + before * count + one] & t[seconds + one * count + second] & t[allowed + inWord];
        line[i] = (line[i] & 0xFFFFFFFFL) | ((long) found << MASK_BITS);
        if (i < begin && here < 0) {
          return i;
        }
        second = one;
        one = before;
        i--;
      }
      return i;
    }

    /** The masks that may begin in each block of places; answers those that may begin anywhere. */
    private long anyOfBlocks(int n) {
      final int count = (n + BLOCK - 1) >> BLOCK_BITS;
      if (blocks.length < count) {
        blocks = new long[2 * count];
      }
      final long[] line = this.line;
      long anywhere = 0;
      for (int block = 0; block < count; block++) {
        final int end = Math.min(n + 1, 1 + ((block + 1) << BLOCK_BITS));
        long found = 0;
        for (int i = 1 + (block << BLOCK_BITS); i < end; i++) {
          found |= line[i];
        }
        blocks[block] = found;
        anywhere |= found;
      }
      return anywhere;
    }

    private int written; // of `other`, by the last mask

    /** Write the line with a mask's matches replaced to `other`, unless there are none; answers how many bounds are in `replaced`. */
    private int replace(int n, long bit, int about) {
      final long[] line = this.line;
      final int code = t[about + CODE];
      int at = 1;
      int done = 1;
      int i = 1;
      int many = 0;
      while (i <= n) {
        if (((i - 1) & (BLOCK - 1)) == 0 && (blocks[(i - 1) >> BLOCK_BITS] & bit) == 0) {
          i += BLOCK;
          continue;
        }
        final int end = (line[i] & bit) == 0 ? -1 : match(i, code);
        if (end < 0) {
          i++;
          continue;
        }
        if (at + n - done + ROOM > other.length) {
          other = Arrays.copyOf(other, 2 * Math.max(other.length, n + ROOM));
        }
        if (many + 2 > replaced.length) {
          replaced = Arrays.copyOf(replaced, 2 * replaced.length);
        }
        if (sets != null) {
          table.lookups.keepBeginning(sets, line, i, (int) (bit >>> MASK_BITS));
        }
        System.arraycopy(line, done, other, at, i - done);
        at += i - done;
        replaced[many] = at;
        if (t[about + KEEPS] != 0) {
          System.arraycopy(line, kept[0], other, at, kept[1] - kept[0]);
          at += kept[1] - kept[0];
        }
        for (int token = t[about + REPLACEMENT]; t[token] >= 0; token++) {
          other[at] = t[token];
          at++;
        }
        replaced[many + 1] = at;
        many += 2;
        done = end;
        i = end;
      }
      if (many > 0) {
        System.arraycopy(line, done, other, at, n + 1 - done);
        written = at + n + 1 - done;
      }
      return many;
    }

    /** Where the match ends that begins at a place, or -1. `kept` is where $1 begins and ends. */
    private int match(int begin, int code) {
      final int[] t = this.t;
      final int[] stack = this.stack;
      final int[] slots = this.slots;
      int pos = begin;
      int pc = code;
      int top = 0;
      while (true) {
        boolean well = false;
        switch (t[pc]) {
          case 0: // MATCH
            return pos;
          case 1: // SET
            if (at(t[pc + 2], pos) != 0) {
              pos++;
              pc = t[pc + 1];
              well = true;
            }
            break;
          case 2: // SETS
            {
              final int end = pc + 3 + t[pc + 2];
              int set = pc + 3;
              while (set < end && at(t[set], pos) != 0) {
                pos++;
                set++;
              }
              if (set == end) {
                pc = t[pc + 1];
                well = true;
              }
            }
            break;
          case 3: // NEXT
            if (at(t[pc + 2], pos) != 0) {
              pc = t[pc + 1];
              well = true;
            }
            break;
          case 4: // BACK
            if (at(t[pc + 3], pos - t[pc + 2]) != 0) {
              pc = t[pc + 1];
              well = true;
            }
            break;
          case 5: // SPAN
            {
              final int set = t[pc + 2];
              final int least = pos + t[pc + 3];
              final int most = pos + t[pc + 4];
              while (pos < most && at(set, pos) != 0) {
                pos++;
              }
              if (pos >= least) {
                pc = t[pc + 1];
                well = true;
              }
            }
            break;
          case 6: // GREEDY
            {
              final int set = t[pc + 2];
              final int least = pos + t[pc + 3];
              final int most = pos + t[pc + 4];
              final int follow = t[pc + 5];
              while (pos < most && at(set, pos) != 0) {
                pos++;
              }
              while (pos >= least && at(follow, pos) == 0) {
                pos--;
              }
              if (pos >= least) {
                if (pos > least) {
                  stack[top] = GIVES_BACK;
                  stack[top + 1] = pc;
                  stack[top + 2] = pos;
                  stack[top + 3] = least;
                  top += ENTRY;
                }
                pc = t[pc + 1];
                well = true;
              }
            }
            break;
          case 7: // LAZY
            {
              final int set = t[pc + 2];
              final int least = pos + t[pc + 3];
              final int most = pos + t[pc + 4];
              final int follow = t[pc + 5];
              while (pos < least && at(set, pos) != 0) {
                pos++;
              }
              if (pos >= least) {
                while (pos < most && at(follow, pos) == 0 && at(set, pos) != 0) {
                  pos++;
                }
                if (at(follow, pos) != 0) {
                  if (pos < most && at(set, pos) != 0) {
                    stack[top] = TAKES_MORE;
                    stack[top + 1] = pc;
                    stack[top + 2] = pos;
                    stack[top + 3] = most;
                    top += ENTRY;
                  }
                  pc = t[pc + 1];
                  well = true;
                }
              }
            }
            break;
          case 8: // CHOICE
            {
              final int one = at(t[pc + 2], pos);
              if (one != 0) {
                if (t[one + 1] != 0) {
                  stack[top] = OPTIONS;
                  stack[top + 1] = one + 1;
                  stack[top + 2] = pos;
                  top += ENTRY;
                }
                pc = t[one];
                well = true;
              }
            }
            break;
          case 9: // IF
            pc = at(t[pc + 2], pos) != 0 ? t[pc + 1] : t[pc + 3];
            well = true;
            break;
          case 10: // ENTER
            slots[t[pc + 2]] = top;
            slots[t[pc + 3]] = 0;
            pc = t[pc + 1];
            well = true;
            break;
          case 11: // COUNT
          case 14: // AGAIN
            {
              final int slot = t[pc + 2];
              stack[top] = COUNTED;
              stack[top + 1] = slot;
              stack[top + 2] = slots[slot];
              top += ENTRY;
              slots[slot] = t[pc] == 11 ? 0 : slots[slot] + 1;
              pc = t[pc + 1];
              well = true;
            }
            break;
          case 12: // LOOP
            {
              final int count = slots[t[pc + 2]];
              if (count < t[pc + 3]) {
                pc = t[pc + 1];
                well = true;
              } else if (count >= t[pc + 4]) {
                pc = t[pc + 6];
                well = true;
              } else {
                final int one = at(t[pc + 5], pos);
                if (one != 0) {
                  if (t[one + 1] != 0) {
                    stack[top] = OPTIONS;
                    stack[top + 1] = one + 1;
                    stack[top + 2] = pos;
                    top += ENTRY;
                  }
                  pc = t[one];
                  well = true;
                }
              }
            }
            break;
          case 13: // RUN
            {
              final int slot = t[pc + 2];
              final int set = t[pc + 3];
              final int from = pos;
              final int most = pos + t[pc + 4] - slots[slot];
              while (pos < most && at(set, pos) != 0) {
                pos++;
              }
              slots[slot] += pos - from;
              pc = t[pc + 1];
              well = true;
            }
            break;
          case 15: // AGAIN_CUT
            {
              final int slot = t[pc + 2];
              slots[slot]++;
              if (slots[slot] >= t[pc + 4]) {
                top = slots[t[pc + 3]];
              } else {
                stack[top] = COUNTED;
                stack[top + 1] = slot;
                stack[top + 2] = slots[slot] - 1;
                top += ENTRY;
              }
              pc = t[pc + 1];
              well = true;
            }
            break;
          case 16: // CUT
            top = slots[t[pc + 2]];
            pc = t[pc + 1];
            well = true;
            break;
          case 17: // LOOK
            slots[t[pc + 2]] = top;
            slots[t[pc + 2] + 1] = pos;
            pc = t[pc + 1];
            well = true;
            break;
          case 18: // LOOKED
            top = slots[t[pc + 2]];
            pos = slots[t[pc + 2] + 1];
            pc = t[pc + 1];
            well = true;
            break;
          case 19: // UNLESS
            if (at(t[pc + 4], pos) == 0) {
              pc = t[pc + 3];
            } else {
              slots[t[pc + 2]] = top;
              stack[top] = PLACE;
              stack[top + 1] = t[pc + 3];
              stack[top + 2] = pos;
              top += ENTRY;
              pc = t[pc + 1];
            }
            well = true;
            break;
          case 20: // FAIL
            top = slots[t[pc + 2]];
            break;
          case 21: // CAPTURE
            kept[t[pc + 2]] = pos;
            pc = t[pc + 1];
            well = true;
            break;
          default:
            throw new IllegalStateException("operation " + t[pc]);
        }
        // this way leads nowhere: back to the last place where there was another
        while (!well) {
          if (top == 0) {
            return -1;
          }
          top -= ENTRY;
          final int where = stack[top + 1];
          switch (stack[top]) {
            case OPTIONS:
              pos = stack[top + 2];
              pc = t[where];
              if (t[where + 1] != 0) {
                stack[top + 1] = where + 1;
                top += ENTRY;
              }
              well = true;
              break;
            case COUNTED:
              slots[where] = stack[top + 2];
              break;
            case PLACE:
              pc = where;
              pos = stack[top + 2];
              well = true;
              break;
            case GIVES_BACK:
              {
                final int least = stack[top + 3];
                final int follow = t[where + 5];
                pos = stack[top + 2] - 1;
                while (pos >= least && at(follow, pos) == 0) {
                  pos--;
                }
                if (pos >= least) {
                  if (pos > least) {
                    stack[top + 2] = pos;
                    top += ENTRY;
                  }
                  pc = t[where + 1];
                  well = true;
                }
              }
              break;
            default: // TAKES_MORE
              {
                final int most = stack[top + 3];
                final int set = t[where + 2];
                final int follow = t[where + 5];
                pos = stack[top + 2] + 1;
                while (pos < most && at(follow, pos) == 0 && at(set, pos) != 0) {
                  pos++;
                }
                if (at(follow, pos) != 0) {
                  if (pos < most && at(set, pos) != 0) {
                    stack[top + 2] = pos;
                    top += ENTRY;
                  }
                  pc = t[where + 1];
                  well = true;
                }
              }
          }
        }
      }
    }
  }
}
