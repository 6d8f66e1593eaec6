"""`make chaos`: a seeded schedule of faults over the real processes, and then every result against a run without faults of the same log.

schedule     which fault comes when: from the seed alone
servers      a broker and an Elasticsearch node that can be killed, stopped, suspended and started again on their data
processes    `kappa run` as a process tree: parent, child, JVM, Python workers
http_faults  a server before Elasticsearch that refuses, cuts connections, or answers as an overloaded one does
fleet        a simulated fleet that writes at the pace of the clock, whatever happens to the broker
faults       what each fault does, and what puts an end to it
comparison   all that two versions wrote, record by record and document by document
experiment   all of it in order
outcome      the report: JSON, and a table for people
    page         the figures in `docs/reliability.md`
"""
