package kappa;

/**
 * A message of OpenTelemetry's protocol: of its fields those that are read, by their numbers, with the names that JSON has for them.
 *
 * <p>Numbers and kinds are those of opentelemetry/proto/{metrics,logs,common}/v1, which are stable.
 */
final class OtlpMessage {
  static final int STRING = 0;
  static final int BYTES = 1;
  static final int MESSAGE = 2;
  static final int BOOL = 3;
  static final int ENUM = 4;
  static final int INT64 = 5;
  static final int FIXED64 = 6; // without a sign
  static final int SFIXED64 = 7;
  static final int DOUBLE = 8;
  private static final int[] WIRE_TYPES = {2, 2, 2, 0, 0, 0, 1, 1, 1}; // by kind
  private static final int MOST_NUMBER = 11;

  /** A field. */
  static final class Field {
    final String name;
    final int kind;
    final int wireType;
    final boolean list;
    final boolean always; // JSON has it even if it is 0 or empty: it may be absent otherwise
    final OtlpMessage message;

    Field(String name, int kind, boolean list, boolean always, OtlpMessage message) {
      this.name = name;
      this.kind = kind;
      this.wireType = WIRE_TYPES[kind];
      this.list = list;
      this.always = always;
      this.message = message;
    }
  }

  static final OtlpMessage METRICS = metrics();
  static final OtlpMessage LOGS = logs();

  final String name;
  private final Field[] fields = new Field[MOST_NUMBER + 1];

  private OtlpMessage(String name) {
    this.name = name;
  }

  /** The field of a number; null where it is not read. */
  Field field(int number) {
    return number <= MOST_NUMBER ? fields[number] : null;
  }

  private OtlpMessage with(int number, String json, int kind) {
    fields[number] = new Field(json, kind, false, false, null);
    return this;
  }

  private OtlpMessage always(int number, String json, int kind) {
    fields[number] = new Field(json, kind, false, true, null);
    return this;
  }

  private OtlpMessage one(int number, String json, OtlpMessage message) {
    fields[number] = new Field(json, MESSAGE, false, true, message);
    return this;
  }

  private OtlpMessage list(int number, String json, OtlpMessage message) {
    fields[number] = new Field(json, MESSAGE, true, true, message);
    return this;
  }

  private static OtlpMessage scalar() {
    OtlpMessage value = new OtlpMessage("AnyValue").always(1, "stringValue", STRING).always(2, "boolValue", BOOL);
    return value.always(3, "intValue", INT64).always(4, "doubleValue", DOUBLE);
  }

  /** Arrays and lists are no labels; their attributes have no value. */
  private static OtlpMessage attribute() {
    return new OtlpMessage("KeyValue").with(1, "key", STRING).one(2, "value", scalar());
  }

  private static OtlpMessage body() {
    OtlpMessage value = scalar(), member = new OtlpMessage("KeyValue").with(1, "key", STRING).one(2, "value", value);
    value.one(5, "arrayValue", new OtlpMessage("ArrayValue").list(1, "values", value));
    return value.one(6, "kvlistValue", new OtlpMessage("KeyValueList").list(1, "values", member)).always(7, "bytesValue", BYTES);
  }

  private static OtlpMessage of(String kind, String lists, String scope, OtlpMessage scopes) {
    OtlpMessage resource = new OtlpMessage("Resource").list(1, "attributes", attribute());
    OtlpMessage owner = new OtlpMessage("Resource" + kind).one(1, "resource", resource).list(2, scope, scopes);
    return new OtlpMessage(kind + "Data").list(1, lists, owner);
  }

  private static OtlpMessage logs() {
    OtlpMessage line = new OtlpMessage("LogRecord").with(1, "timeUnixNano", FIXED64).with(2, "severityNumber", ENUM);
    line.with(3, "severityText", STRING).one(5, "body", body()).with(11, "observedTimeUnixNano", FIXED64);
    return of("Logs", "resourceLogs", "scopeLogs", new OtlpMessage("ScopeLogs").list(2, "logRecords", line));
  }

  private static OtlpMessage metrics() {
    OtlpMessage number = data("NumberDataPoint", 7, 8).always(4, "asDouble", DOUBLE).always(6, "asInt", SFIXED64);
    OtlpMessage histogram = data("HistogramDataPoint", 9, 10).with(4, "count", FIXED64).always(5, "sum", DOUBLE);
    OtlpMessage exponential = data("ExponentialHistogramDataPoint", 1, 10);
    exponential.with(4, "count", FIXED64).always(5, "sum", DOUBLE);
    OtlpMessage summary = data("SummaryDataPoint", 7, 8).with(4, "count", FIXED64).with(5, "sum", DOUBLE);
    OtlpMessage metric = new OtlpMessage("Metric").with(1, "name", STRING);
    metric.one(5, "gauge", new OtlpMessage("Gauge").list(1, "dataPoints", number));
    metric.one(7, "sum", form("Sum", number).with(3, "isMonotonic", BOOL));
    metric.one(9, "histogram", form("Histogram", histogram));
    metric.one(10, "exponentialHistogram", form("ExponentialHistogram", exponential));
    metric.one(11, "summary", new OtlpMessage("Summary").list(1, "dataPoints", summary));
    return of("Metrics", "resourceMetrics", "scopeMetrics", new OtlpMessage("ScopeMetrics").list(2, "metrics", metric));
  }

  private static OtlpMessage data(String name, int attributes, int flags) {
    OtlpMessage point = new OtlpMessage(name).list(attributes, "attributes", attribute());
    return point.with(3, "timeUnixNano", FIXED64).with(flags, "flags", ENUM);
  }

  private static OtlpMessage form(String name, OtlpMessage data) {
    return new OtlpMessage(name).list(1, "dataPoints", data).with(2, "aggregationTemporality", ENUM);
  }
}
