-- SPDX-License-Identifier: BSD-2-Clause
-- An order expires half an hour after it was made, if it is not paid.
create table orders (id bigint primary key, state text not null default 'open', until timestamptz not null default now() + '30 minutes');

create function expire_order() returns trigger language plpgsql as $$
begin
  if new.state = 'open' then
    perform hwt_put('job', 'order ' || new.id, at => new.until, key => 'order ' || new.id, if_exists => 'replace');
  else
    perform hwt_cancel_key('job', 'order ' || new.id);
  end if;
  return null;
end $$;
create trigger expire_order after insert or update on orders for each row execute function expire_order();

insert into orders (id) values (17), (18);
update orders set state = 'paid' where id = 18;

-- What is rolled back was never put, and is not moved.
begin;
insert into orders (id) values (19);
update orders set until = now() + '1 day' where id = 17;
rollback;
