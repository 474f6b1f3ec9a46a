-- The resource groups of `cargo run --release --example tenants`.
-- A share is a quotient: the worker time of two groups that both have work is in the ratio of their cpu_core_limit.

-- 1  Two tenants with the same load, told apart by their user.
CREATE RESOURCE GROUP acme   TO (user = 'acme')   WITH ('cpu_core_limit' = '2');
CREATE RESOURCE GROUP globex TO (user = 'globex') WITH ('cpu_core_limit' = '1');

-- 2  Small queries beside large ones, told apart by the database they touch.
CREATE RESOURCE GROUP dashboards TO (db = 'dashboards') WITH ('cpu_core_limit' = '2');
CREATE RESOURCE GROUP analysts   TO (db = 'lake')       WITH ('cpu_core_limit' = '1');

-- 3  A short-query tenant beside a heavy one: user and database must both fit. It reserves up to three workers; its weight
-- 6  asks for more than that on a small machine. In suite 6 an ALTER gives it weight 1 beside 10: then what it has is its
--    reservation, one worker.
CREATE RESOURCE GROUP checkout TO (user = 'shop', db = 'orders') WITH ('type' = 'short_query', 'cpu_core_limit' = '3');
CREATE RESOURCE GROUP reports  TO (user = 'shop', db = 'archive') WITH ('cpu_core_limit' = '1');

-- 4  Three tenants, told apart by their role.
CREATE RESOURCE GROUP bronze TO (role = 'bronze') WITH ('cpu_core_limit' = '1');
CREATE RESOURCE GROUP silver TO (role = 'silver') WITH ('cpu_core_limit' = '3');
CREATE RESOURCE GROUP gold   TO (role = 'gold')   WITH ('cpu_core_limit' = '4');

-- 5  Background work of the same user on the same database, told apart by the kind of statement.
CREATE RESOURCE GROUP queries    TO (user = 'warehouse', query_type IN ('select'))     WITH ('cpu_core_limit' = '4');
CREATE RESOURCE GROUP compaction TO (user = 'warehouse', query_type IN ('compaction')) WITH ('cpu_core_limit' = '1');
