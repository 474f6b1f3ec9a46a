"""What programs do through psycopg and asyncpg: one line for each thing seen. Arguments: a port of 127.0.0.1."""

import asyncio
import sys

import asyncpg
import psycopg

port = int(sys.argv[1])


def psycopg_does():
    notices = []
    with psycopg.connect(
        host="127.0.0.1", port=port, user="ops", password="secret", dbname="quotient", connect_timeout=20
    ) as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.severity))
        # The driver begins a transaction by itself.
        made = connection.execute(
            "CREATE RESOURCE GROUP bi TO (user='bi') WITH ('cpu_core_limit'='3')"
        )
        print("made:", made.statusmessage, notices)
        connection.commit()
        for binary in (False, True):
            rows = connection.execute(
                "SELECT name, cpu_core_limit, cpu_share FROM groups WHERE name = %s AND cpu_core_limit > %s",
                ("bi", 2),
                binary=binary,
            )
            print("by parameter:", rows.statusmessage, rows.fetchall())
        for _ in range(3):
            again = connection.execute(
                "SHOW RESOURCE GROUP bi", prepare=True
            ).fetchone()
        print("prepared:", again[0], again[2])
        try:
            connection.execute("SELECT nme FROM groups")
        except psycopg.Error as error:
            print("refused:", error.sqlstate, error.diag.statement_position)
        print("goes on:", connection.execute("SELECT count(*) FROM groups").fetchone())
        # And rolls it back where it leaves by an error; it is told that nothing is undone.
        notices.clear()
        connection.rollback()
        print("rolled back:", notices)
        with connection.pipeline():
            first = connection.execute("SELECT 1")
            second = connection.execute("SHOW RESOURCE GROUPS ALL")
            print("in one go:", first.fetchone(), len(second.fetchall()))


async def asyncpg_does():
    connection = await asyncpg.connect(
        host="127.0.0.1", port=port, user="ops", password="secret", database="quotient", timeout=20
    )
    rows = await connection.fetch("SELECT name, tasks FROM groups WHERE name = $1", "bi")
    print("fetched:", [tuple(row) for row in rows])
    async with connection.transaction():
        print("changed:", await connection.execute("DROP RESOURCE GROUP bi"))
    try:
        await connection.fetch("SHOW RESOURCE GROUP bi")
    except asyncpg.PostgresError as error:
        print("refused:", error.sqlstate)
    await connection.close()
    # A pool cleans a connection before it lends it to the next.
    async with asyncpg.create_pool(
        host="127.0.0.1", port=port, user="ops", password="secret", database="quotient", timeout=20, min_size=1, max_size=1
    ) as pool:
        for _ in range(2):
            async with pool.acquire() as lent:
                print("lent:", repr(await lent.fetchval("SHOW application_name")))
                await lent.execute("SET application_name = 'one of a pool'")


psycopg_does()
asyncio.run(asyncpg_does())
