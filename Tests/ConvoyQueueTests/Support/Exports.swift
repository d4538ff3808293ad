// For every file of this target.
@_exported import TestSupport
