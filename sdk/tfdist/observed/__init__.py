"""Small immutable values of observed objects: pods, gangs, the job with its reports. Pure."""
