package kappa;

/**
 * The limits of a record that has objects, arrays and points, in JSON or as protobuf: what has been seen of one, and why it is over
 * a limit.
 */
final class RecordLimits {
  private int depth = 0;
  private int containers = 0;
  private int points = 0;
  private int measured = 0; // how deep we are in arrays where points are counted as elements, and numbers are not
  private final int[] elements = new int[RecordText.MOST_DEPTH + 2];
  private final boolean[] array = new boolean[RecordText.MOST_DEPTH + 2];
  private final boolean[] ofPoints = new boolean[RecordText.MOST_DEPTH + 2];
  private final boolean[] measuring = new boolean[RecordText.MOST_DEPTH + 2];

  int depth() {
    return depth;
  }

  /** Whether what comes next is an element of an array. */
  boolean inArray() {
    return array[depth];
  }

  /** Counts a member of an object or an element of an array; answers why the record is over a limit, or null. */
  String part() {
    if (++elements[depth] > RecordText.MOST_ELEMENTS) {
      return "more than " + RecordText.MOST_ELEMENTS + (array[depth] ? " elements in an array" : " members in an object");
    }
    return ofPoints[depth] ? point() : null;
  }

  /** Counts a number, which is a point outside of arrays: of collectd, whose record is an array, elements of `values` are points. */
  String number() {
    return array[depth] || measured > 0 || array[1] ? null : point();
  }

  private String point() {
    return ++points > RecordText.MOST_POINTS ? "more than " + RecordText.MOST_POINTS + " points or lines" : null;
  }

  /** Counts an object, or an array that is the member `name`. */
  String opened(boolean isArray, String name) {
    if (depth == RecordText.MOST_DEPTH) {
      return "nested deeper than " + RecordText.MOST_DEPTH;
    }
    if (++containers > RecordText.MOST_CONTAINERS) {
      return "more than " + RecordText.MOST_CONTAINERS + " objects and arrays";
    }
    depth++;
    array[depth] = isArray;
    elements[depth] = 0;
    ofPoints[depth] = "dataPoints".equals(name) || "logRecords".equals(name) || array[1] && depth == 3 && "values".equals(name);
    measuring[depth] = ofPoints[depth] || "scopeMetrics".equals(name);
    measured += measuring[depth] ? 1 : 0;
    return null;
  }

  void closed() {
    measured -= measuring[depth] ? 1 : 0;
    depth--;
  }
}
