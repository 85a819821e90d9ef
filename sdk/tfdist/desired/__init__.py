"""Which pods and other objects a job has, given its specification and state; `render` makes their content. Pure."""
