// Imports these modules for every file of this target.
@_exported import TestSupport
