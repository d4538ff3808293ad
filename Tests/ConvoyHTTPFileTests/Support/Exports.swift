// Imports these modules forevery file of this target.
@_exported import TestSupport
