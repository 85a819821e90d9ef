"""The TFDist controller: it creates the pods of TFDistJobs, and reports their state in the jobs' status."""
