// Imports these modules for every file of this target.
@_exported import ConvoyTesting
@_exported import TestSupport
