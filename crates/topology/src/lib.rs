//! Machine model: discovery by hwloc, sysfs, XML and synthetic strings; level costs.
