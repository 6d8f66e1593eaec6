"""The mathematics: numbers in, numbers out. No Spark, no Kafka, no Elasticsearch, no clock."""
