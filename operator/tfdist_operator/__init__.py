"""The TFDist controller: turns TFDistJobs into pods, and what the pods do into the jobs' status."""
