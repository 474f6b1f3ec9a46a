//! From a request's attributes to its resource group.
